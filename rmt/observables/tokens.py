"""What token matrices X (..., n, d) say about collapse: rank, direction, sameness. Float64, any array library.

Everything built on singular values takes a `TokenSpectrum`, so that one eigendecomposition of the smaller Gram matrix
serves all; nothing n x n is formed unless n < d. All quantities are invariant under X -> c X.
A zero matrix has no rank or direction: the result is nan there, and tables print null.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

from array_api_compat import array_namespace

__all__ = [
    "TokenSpectrum",
    "effective_rank",
    "gram_stable_rank",
    "gram_stable_rank_excess",
    "log_gram_stable_rank_excess",
    "rank_one_residual",
    "token_cosine",
    "token_spectrum",
    "token_stable_rank",
]

SLAB = 1 << 21  # entries converted to float64 at a time
POWER_STEPS = 6
COLLAPSED = 1e-4  # excess of the Gram stable rank below which the top value is split off


@dataclass(frozen=True, eq=False)
class TokenSpectrum:
    """Singular values s_1 >= s_2 >= ... of X.

    top: s_1, (...) float64. tail: (s_i / s_1)^2 for i >= 2, descending, (..., min(n, d) - 1) float64, each free of
    cancellation against 1 down to the rounding of the entries of X themselves; nan if X = 0.
    """

    top: Any
    tail: Any


def token_spectrum(X: Any) -> TokenSpectrum:
    """The spectrum of X (..., n, d), float32 or float64.

    Eigenvalues of the Gram matrix carry an error eps s_1^2, which would drown a collapsed tail. So where the excess of
    the Gram stable rank is below 1e-4, the tail is taken from (I - u u^T) X, s u = X v, v from power steps on the Gram
    matrix. With r = |X^T u - s v| its squares are those of X up to a *relative* r^2 / (s_1^2 - s_2^2) (Schur complement
    of the first row and column; derived), and s_2 / s_1 <= 0.1 makes r about 1e-12 s.
    """
    xp = array_namespace(X)
    if X.ndim < 2 or X.shape[-1] == 0 or X.shape[-2] == 0:
        raise ValueError(f"tokens must have shape (..., n, d) with n, d >= 1, got {tuple(X.shape)}")
    flat = xp.reshape(X, (-1, *X.shape[-2:]))
    found = [_one_spectrum(xp, flat[i, ...]) for i in range(flat.shape[0])]
    top = xp.reshape(xp.stack([one[0] for one in found]), X.shape[:-2])
    tail = xp.reshape(xp.stack([one[1] for one in found]), (*X.shape[:-2], min(X.shape[-2:]) - 1))
    return TokenSpectrum(top, tail)


def token_stable_rank(spectrum: TokenSpectrum) -> Any:
    """||X||_F^2 / s_1^2, in [1, min(n, d)]."""
    return _of_tokens(spectrum, 1.0 + _sum(spectrum.tail))


def gram_stable_rank(spectrum: TokenSpectrum) -> Any:
    """||S||_F^2 / ||S||^2 = sum s_i^4 / s_1^4 for S = X X^T, in [1, min(n, d)]: the stable rank of *Mind the Gap*."""
    return 1.0 + gram_stable_rank_excess(spectrum)


def gram_stable_rank_excess(spectrum: TokenSpectrum) -> Any:
    """gram_stable_rank - 1, as sum over i >= 2, so without cancellation. Underflows to 0 below 1e-308."""
    return _of_tokens(spectrum, _sum(spectrum.tail**2))


def log_gram_stable_rank_excess(spectrum: TokenSpectrum) -> Any:
    """Natural logarithm of the excess, also where the excess underflows; -inf for tokens of rank exactly one."""
    xp, tail = array_namespace(spectrum.tail), spectrum.tail
    if tail.shape[-1] == 0:
        return _of_tokens(spectrum, xp.full(spectrum.top.shape, -xp.inf, dtype=xp.float64))
    first = tail[..., 0]
    some = first > 0
    safe = xp.where(some, first, 1.0)
    log = 2 * xp.log(safe) + xp.log(_sum((tail / safe[..., None]) ** 2) + xp.astype(~some, xp.float64))
    return xp.where(some, log, xp.where(first == 0, xp.full_like(log, -xp.inf), xp.nan))


def effective_rank(spectrum: TokenSpectrum) -> Any:
    """exp of the entropy of p_i = s_i^2 / sum s_j^2, in [1, min(n, d)]."""
    xp, tail = array_namespace(spectrum.tail), spectrum.tail
    total = token_stable_rank(spectrum)
    positive = tail > 0
    entropy = xp.log(total) - _sum(xp.where(positive, tail * xp.log(xp.where(positive, tail, 1.0)), 0.0)) / total
    return xp.exp(entropy)


def token_cosine(X: Any) -> Any:
    """Mean cosine over pairs of different tokens (rows), from |sum of unit rows|^2. Zero rows are left out.

    nan with fewer than two rows that have a direction. Between -1/(n - 1) and 1.
    """
    xp = array_namespace(X)
    total = xp.zeros((*X.shape[:-2], X.shape[-1]), dtype=xp.float64)
    number = xp.zeros(X.shape[:-2], dtype=xp.float64)
    for rows in _slabs(xp, X):
        largest = xp.max(xp.abs(rows), axis=-1, keepdims=True)
        scaled = rows / xp.where(largest > 0, largest, 1.0)
        norm = xp.sqrt(xp.sum(scaled * scaled, axis=-1, keepdims=True))
        total = total + xp.sum(scaled / xp.where(norm > 0, norm, 1.0), axis=-2)
        number = number + xp.sum(xp.astype(norm[..., 0] > 0, xp.float64), axis=-1)
    pairs = number * (number - 1.0)
    return xp.where(pairs > 0, (_sum(total * total) - number) / xp.where(pairs > 0, pairs, 1.0), xp.nan)


def rank_one_residual(X: Any) -> Any:
    """||(I - J) X||_F / ||X||_F: relative distance to the nearest 1 x^T (all tokens equal), in [0, 1]."""
    xp = array_namespace(X)
    scale = xp.astype(xp.max(xp.abs(X), axis=(-2, -1), keepdims=True), xp.float64)
    scale = xp.where(scale > 0, scale, 1.0)
    mean = xp.zeros((*X.shape[:-2], 1, X.shape[-1]), dtype=xp.float64)
    for rows in _slabs(xp, X):
        mean = mean + xp.sum(rows / scale, axis=-2, keepdims=True) / X.shape[-2]
    whole = xp.zeros(X.shape[:-2], dtype=xp.float64)
    apart = xp.zeros(X.shape[:-2], dtype=xp.float64)
    for rows in _slabs(xp, X):
        scaled = rows / scale
        whole = whole + xp.sum(scaled**2, axis=(-2, -1))
        apart = apart + xp.sum((scaled - mean) ** 2, axis=(-2, -1))
    return xp.where(whole > 0, xp.sqrt(apart / xp.where(whole > 0, whole, 1.0)), xp.nan)


def _of_tokens(spectrum: TokenSpectrum, value: Any) -> Any:
    """The value, nan where all tokens are zero: said here for tokens (1, d) and (n, 1), whose tail is empty."""
    xp = array_namespace(spectrum.top)
    return xp.where(spectrum.top > 0, value, xp.nan)


def _sum(terms: Any) -> Any:
    return array_namespace(terms).sum(terms, axis=-1)


def _total(terms: Iterable[Any]) -> Any:
    """Sum of arrays, one after another."""
    return reduce(operator.add, terms)


def _slabs(xp: Any, X: Any) -> Iterator[Any]:
    """Rows of X (..., n, d), some at a time, in float64."""
    width = 1
    for size in (*X.shape[:-2], X.shape[-1]):
        width *= size
    step = max(1, SLAB // max(width, 1))
    for start in range(0, X.shape[-2], step):
        yield xp.astype(X[..., start : min(start + step, X.shape[-2]), :], xp.float64)


def _one_spectrum(xp: Any, X: Any) -> tuple[Any, Any]:
    """(s_1, tail) of one X (n, d)."""
    X = X if X.shape[0] >= X.shape[1] else xp.matrix_transpose(X)
    scale = float(xp.max(xp.abs(X)))
    if not 0 <= scale < float("inf"):
        raise ValueError("tokens hold NaN or infinity: check the layer that made them")
    if scale == 0:
        return xp.asarray(0.0, dtype=xp.float64), xp.full((X.shape[1] - 1,), xp.nan, dtype=xp.float64)

    def slabs() -> Iterator[Any]:
        return (rows / scale for rows in _slabs(xp, X))

    gram = _gram(xp, slabs())
    v, square = _leading(xp, gram)
    if float(xp.sum(gram * gram)) > (1 + COLLAPSED) * square**2:
        squares = _eigenvalues(xp, gram)
        return xp.sqrt(squares[0]) * scale, squares[1:] / squares[0]
    images = [rows @ v for rows in slabs()]
    top = xp.sqrt(_total(xp.sum(image * image) for image in images))
    row = _total(xp.matrix_transpose(rows) @ (image / top) for rows, image in zip(slabs(), images, strict=True))
    rest = (rows - (image / top)[:, None] * row[None, :] for rows, image in zip(slabs(), images, strict=True))
    squares = _eigenvalues(xp, _gram(xp, rest))[:-1]  # the last one belongs to v
    return top * scale, squares / top**2


def _leading(xp: Any, gram: Any) -> tuple[Any, float]:
    """Power steps: a unit vector (d,) and its Rayleigh quotient, a lower bound of the top eigenvalue."""
    v = gram[:, int(xp.argmax(xp.linalg.diagonal(gram)))]
    for _ in range(POWER_STEPS):
        v = gram @ (v / xp.linalg.vector_norm(v))
    v = v / xp.linalg.vector_norm(v)
    return v, float(xp.sum(v * (gram @ v)))


def _gram(xp: Any, slabs: Iterator[Any]) -> Any:
    return _total(xp.matrix_transpose(rows) @ rows for rows in slabs)


def _eigenvalues(xp: Any, gram: Any) -> Any:
    """Descending, clipped at 0."""
    squares = xp.flip(xp.linalg.eigvalsh(gram), axis=0)
    return xp.where(squares > 0, squares, 0.0)
