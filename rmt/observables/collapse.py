"""Observables of tokens held as a mean and a rest: exact however far the tokens have collapsed."""

from __future__ import annotations

import numpy as np

from rmt.attention.split import SplitTokens
from rmt.observables.tokens import TokenSpectrum, token_cosine, token_spectrum

__all__ = ["pair_cosine", "split_cosine", "split_residual", "split_spectrum"]

SEPARATED = 1e-4  # |rest|^2 / |mean part|^2 below which the top direction is that of the mean


def split_spectrum(X: SplitTokens) -> TokenSpectrum:
    """The spectrum of 1 m^T + R, 1^T R = 0 (X without its scale), free of the rounding of m in the tail.

    X^T X = n m m^T + R^T R. In a basis whose first vector is m/|m| the other block is Q^T R^T R Q, and its Schur
    complement takes off the square of the coupling over n |m|^2 + |R m|^2/|m|^2. The squared tail values are those of
    the complement up to a relative (s_2/s_1)^2 squared (derived; second-order perturbation), below 1e-8 here.
    """
    mean, rest = X.mean, X.rest
    n, d = rest.shape
    size = float(np.abs(rest).max())
    top = n * float(mean @ mean)
    if d == 1 or size == 0 or not np.sum((rest / size) ** 2) * size**2 < SEPARATED * top:
        return token_spectrum(_level(X))
    # Householder: H maps m/|m| to the first axis; the other columns of R H are R Q.
    axis = mean / np.linalg.norm(mean)
    reflector = axis.copy()
    reflector[0] += np.copysign(1.0, axis[0])
    reflector /= np.linalg.norm(reflector)
    turned = rest / size
    turned = turned - 2 * np.outer(turned @ reflector, reflector)
    along, across = turned[:, 0], turned[:, 1:]
    whole = top + size**2 * float(along @ along)
    if along.any():  # the root of I - a a^T size^2/whole, so that either Gram matrix will do
        length = float(along @ along)
        across = across - np.outer(along, along @ across) * (1 - np.sqrt(1 - size**2 * length / whole)) / length
    gram = across.T @ across if d - 1 <= n else across @ across.T
    squares = np.clip(np.linalg.eigvalsh(gram)[::-1], 0, None) * (size**2 / whole)
    tail = np.zeros(min(n, d) - 1)
    tail[: min(squares.size, tail.size)] = squares[: tail.size]
    return TokenSpectrum(np.asarray(np.sqrt(whole)), tail)


def split_residual(X: SplitTokens) -> float:
    """||(I - J) X||_F / ||X||_F."""
    size = float(np.abs(X.rest).max())
    if size == 0:
        return 0.0 if np.any(X.mean) else float("nan")
    apart = size * float(np.sqrt(np.sum((X.rest / size) ** 2)))
    return apart / float(np.hypot(apart, np.sqrt(X.shape[0]) * np.linalg.norm(X.mean)))


def split_cosine(X: SplitTokens) -> float:
    """Mean cosine over pairs of different tokens; nan with fewer than two that have a direction."""
    return float(token_cosine(_level(X)))


def pair_cosine(X: SplitTokens, first: int, second: int) -> float:
    """Cosine of two tokens; nan where one of them is zero."""
    one, two = X.mean + X.rest[first], X.mean + X.rest[second]
    norms = float(np.linalg.norm(one) * np.linalg.norm(two))
    return float(one @ two) / norms if norms > 0 else float("nan")


def _level(X: SplitTokens) -> np.ndarray:
    """The tokens up to a factor."""
    return X.mean + X.rest
