"""Softmax regression: Gaussian tokens of any covariance, a linear target, label noise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from scipy.fft import dct

from rmt.regression.softmax_weights import Weights


@dataclass(frozen=True, eq=False)
class SoftmaxRegression:
    """The law of one token and its label: x ~ N(0, covariance), y = target x + noise * N(0, I).

    `covariance` is (d, d), symmetric and positive definite; `target` is (p, d) of rank p <= d; `noise`
    is the standard deviation of each label. Derived once: the symmetric roots of the covariance and
    the whitened target T = target covariance^(1/2), whose singular values are all that the
    preconditioned descent can see.

    Raises ValueError for shapes that do not fit, entries that are not finite, a singular covariance,
    p > d or a target without full row rank.
    """

    covariance: np.ndarray
    target: np.ndarray
    noise: float = 0.0

    def __post_init__(self) -> None:
        covariance, target = np.asarray(self.covariance, float), np.asarray(self.target, float)
        object.__setattr__(self, "covariance", covariance)
        object.__setattr__(self, "target", target)
        check_covariance(covariance)
        if target.ndim != 2 or target.shape[1] != len(covariance):
            raise ValueError(
                f"target has shape {target.shape}; expected (p, {len(covariance)}) to fit the covariance: "
                "give one row per output"
            )
        if len(target) > len(covariance):
            raise ValueError(
                f"{len(target)} outputs for tokens of width {len(covariance)}; the head needs p <= d: "
                "lower the value width or raise the width"
            )
        if not np.isfinite(target).all():
            raise ValueError("target holds entries that are not finite; every entry must be a number: clean the array")
        if not (np.isfinite(self.noise) and self.noise >= 0):
            raise ValueError(f"noise = {self.noise}; it is a standard deviation and must be >= 0: choose 0 for none")
        if self.singular_values[-1] <= 1e-12 * self.singular_values[0]:
            raise ValueError(
                f"target singular values {self.singular_values}; the target must have full row rank: "
                "drop the outputs that repeat others"
            )

    @property
    def width(self) -> int:
        """d, the length of a token."""
        return self.target.shape[1]

    @property
    def outputs(self) -> int:
        """p, the length of a label."""
        return self.target.shape[0]

    @cached_property
    def root(self) -> np.ndarray:
        """Symmetric square root of the covariance, (d, d)."""
        return _symmetric_power(self.covariance, 0.5)

    @cached_property
    def inverse_root(self) -> np.ndarray:
        """Symmetric inverse square root of the covariance, (d, d)."""
        return _symmetric_power(self.covariance, -0.5)

    @cached_property
    def whitened_target(self) -> np.ndarray:
        """T = target covariance^(1/2), (p, d)."""
        return self.target @ self.root

    @cached_property
    def factors(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Thin singular value decomposition U (p, p), s (p,), V^T (p, d) of the whitened target."""
        left, values, right = np.linalg.svd(self.whitened_target, full_matrices=False)
        return left, values, right

    @property
    def singular_values(self) -> np.ndarray:
        """Singular values of the whitened target, (p,), largest first."""
        return self.factors[1]

    def whiten(self, weights: Weights) -> Weights:
        """Whitened coordinates (A C^(1/2), C^(1/2) B C^(1/2)) for token covariance C."""
        return Weights(weights.value @ self.root, self.root @ weights.score @ self.root)

    def unwhiten(self, whitened: Weights) -> Weights:
        """The weights whose whitened coordinates are given: the inverse of `whiten`."""
        return Weights(whitened.value @ self.inverse_root, self.inverse_root @ whitened.score @ self.inverse_root)

    def respond(self, normals: np.ndarray, noise: np.ndarray | None = None) -> Contexts:
        """Tokens and labels made of standard normals (contexts, n, d) and label normals (contexts, n, p).

        The same normals under another covariance give the same whitened tokens, so that covariances are
        compared on one sample.
        """
        tokens = normals @ self.root
        labels = tokens @ self.target.T
        if self.noise > 0:
            if noise is None:
                raise ValueError(f"noise = {self.noise} needs label normals; give an array (contexts, n, p)")
            labels = labels + self.noise * noise
        return Contexts(tokens, labels)


@dataclass(frozen=True, eq=False)
class Contexts:
    """Training data: `tokens` (contexts, n, d) and `labels` (contexts, n, p). Every token is a query in its context."""

    tokens: np.ndarray
    labels: np.ndarray

    def __post_init__(self) -> None:
        if self.tokens.ndim != 3 or self.labels.shape[:2] != self.tokens.shape[:2]:
            raise ValueError(
                f"tokens {self.tokens.shape} and labels {self.labels.shape} do not fit; "
                "expected (contexts, n, d) and (contexts, n, p)"
            )
        if not (np.isfinite(self.tokens).all() and np.isfinite(self.labels).all()):
            raise ValueError("tokens or labels hold entries that are not finite; every entry must be a number")

    @property
    def queries(self) -> int:
        """How many (token, label) pairs there are, over all contexts."""
        return self.tokens.shape[0] * self.tokens.shape[1]

    def least_squares(self) -> SoftmaxRegression:
        """The problem as the data show it: second moment of the tokens, least-squares target, no noise.

        Raises ValueError when there are fewer tokens than dimensions or the tokens span too little.
        """
        width = self.tokens.shape[2]
        tokens, labels = self.tokens.reshape(-1, width), self.labels.reshape(-1, self.labels.shape[2])
        if len(tokens) < width:
            raise ValueError(
                f"{len(tokens)} tokens of width {width}; the covariance cannot be estimated from n < d: "
                f"give n >= {width}"
            )
        covariance = tokens.T @ tokens / len(tokens)
        check_covariance(covariance)
        return SoftmaxRegression(covariance, np.linalg.solve(covariance, tokens.T @ labels / len(tokens)).T)


def check_covariance(covariance: np.ndarray) -> None:
    """Raise ValueError unless `covariance` is a finite, symmetric, positive definite (d, d) array."""
    if covariance.ndim != 2 or covariance.shape[0] != covariance.shape[1] or len(covariance) == 0:
        raise ValueError(f"covariance has shape {covariance.shape}; expected a square (d, d) array")
    if not np.isfinite(covariance).all():
        raise ValueError("covariance holds entries that are not finite; every entry must be a number: clean the array")
    scale = np.abs(covariance).max()
    if np.abs(covariance - covariance.T).max() > 1e-10 * scale:
        raise ValueError("covariance is not symmetric; symmetrise it as (C + C^T)/2")
    values = np.linalg.eigvalsh(covariance)
    if values[0] <= 1e-12 * values[-1]:
        raise ValueError(
            f"covariance is singular (eigenvalues {values[0]:.3g} to {values[-1]:.3g}); it must be positive definite: "
            "drop the directions that tokens never take"
        )


def covariance_matrix(width: int, spectrum: str, condition: float = 1.0) -> np.ndarray:
    """Diagonal covariance (d, d) with trace d and condition number `condition`, or one read from a file.

    `spectrum` is "geometric" (eigenvalues in geometric progression), "power" (eigenvalue k proportional to
    k^-a, the exponent set by the condition number) or the path of a .npy file with a covariance (d, d) or with tokens
    (m, d), m > d, whose second moment is taken.
    """
    if spectrum.endswith(".npy"):
        return _covariance_file(Path(spectrum), width)
    if not (np.isfinite(condition) and condition >= 1):
        raise ValueError(f"condition = {condition}; a condition number is at least 1: choose 1 for white tokens")
    rank = np.arange(1, width + 1)
    if width == 1 or condition == 1:
        values = np.ones(width)
    elif spectrum == "geometric":
        values = condition ** (-(rank - 1) / (width - 1))
    elif spectrum == "power":
        values = rank ** (-np.log(condition) / np.log(width))
    else:
        raise ValueError(f"covariance {spectrum!r}; choose geometric, power or the path of a .npy file")
    return np.diag(values * width / values.sum())


def whitened_target(width: int, singular_values: np.ndarray) -> np.ndarray:
    """A whitened target T (p, d) with the given singular values, aligned with no coordinate.

    Its right singular vectors are rows of the discrete cosine basis: orthonormal, reproducible, and
    each spread over all coordinates, so that a diagonal covariance does not share its axes.
    """
    values = np.asarray(singular_values, float)
    if values.ndim != 1 or len(values) == 0 or not (np.isfinite(values).all() and (values > 0).all()):
        raise ValueError(f"singular values {values}; give one or more positive numbers")
    if len(values) > width:
        raise ValueError(f"{len(values)} outputs for tokens of width {width}; the head needs p <= d: lower the outputs")
    return np.sort(values)[::-1, None] * dct(np.eye(width), norm="ortho", axis=0)[: len(values)]


def regression_problem(covariance: np.ndarray, singular_values: np.ndarray, *, noise: float = 0.0) -> SoftmaxRegression:
    """The problem whose whitened target has the given singular values, whatever the covariance."""
    check_covariance(covariance)
    target = whitened_target(len(covariance), singular_values) @ _symmetric_power(covariance, -0.5)
    return SoftmaxRegression(covariance, target, noise)


def _covariance_file(path: Path, width: int) -> np.ndarray:
    try:
        found = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as reason:
        raise ValueError(
            f"{path} cannot be read as a .npy array ({reason}); save a (d, d) array with numpy.save"
        ) from None
    if not np.issubdtype(found.dtype, np.number) or np.iscomplexobj(found):
        raise ValueError(f"{path} holds entries of type {found.dtype}; every entry must be a real number")
    covariance = np.asarray(found, float)
    if covariance.ndim == 2 and covariance.shape[0] > covariance.shape[1]:
        if not np.isfinite(covariance).all():
            raise ValueError(f"{path} holds tokens that are not finite; every entry must be a number: clean the array")
        covariance = covariance.T @ covariance / len(covariance)
    check_covariance(covariance)
    if len(covariance) != width:
        raise ValueError(
            f"{path} is of width {len(covariance)}, the setting asks for {width}: set --width {len(covariance)}"
        )
    return covariance


def _symmetric_power(matrix: np.ndarray, power: float) -> np.ndarray:
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * values**power) @ vectors.T
