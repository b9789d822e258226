"""The largest singular values of an operator, with a certificate that says what is known and what could be missed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg

FAILURE_PROBABILITY = 1e-6
MOST_PRODUCTS = 300
_BREAKDOWN = 1e-13


@dataclass(frozen=True)
class TopSingularValues:
    """Leading singular values, largest first, and how far they can be trusted.

    values (count,): Ritz values. Each is a lower bound of the true value of its rank, up to rounding (interlacing).
    lower, upper (count,): residual interval; it holds a singular value for certain, up to rounding of the products.
    missed_above: no singular value above this level went unseen, except with probability `failure_probability`
        over the random start; inf where the start was not random. It is far looser than the residual interval at the
        hard edge of a bulk: a value a little above the second one could hide only by a start nearly orthogonal to it.
    products: applications of A^T A. converged: whether every value met the tolerance.
    """

    values: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    missed_above: float
    failure_probability: float
    products: int
    converged: bool

    @property
    def certificate(self) -> str:
        """What holds, in words."""
        residual = float(np.max((self.upper - self.lower) / 2, initial=0.0))
        said = f"{self.products} products, residual interval +-{residual:.1e}"
        if math.isinf(self.missed_above):
            said += "; the start was not random: a value may have been missed"
        else:
            said += (
                f"; nothing above {self.missed_above:.4g} was missed, but for a start of probability"
                f" {self.failure_probability:.0e}"
            )
        return said if self.converged else said + "; NOT CONVERGED"


def top_singular_values(
    gram_product: Callable[[np.ndarray], np.ndarray],
    start: np.ndarray,
    *,
    count: int = 2,
    tolerance: float = 1e-6,
    noise: float = 0.0,
    most_products: int = MOST_PRODUCTS,
) -> TopSingularValues:
    """The `count` largest singular values of A, given v -> A^T (A v) on vectors (n,).

    Lanczos with full reorthogonalisation in float64. start (n,) or (n, r): the first column begins, the others take
    over where the Krylov space ends early (multiple values, low rank). noise is the standard deviation of the
    independent normal numbers that each entry of the first column contains; without it nothing can be said of missed
    values. tolerance is relative: a value is done when min(r, r^2/gap) <= 2 tolerance theta, with theta its Ritz value
    (a squared singular value), r the residual norm and gap the distance to the next Ritz value (Kato-Temple).

    The bound on missed values is a posteriori (derived): if an eigenvalue mu of A^T A has squared overlap c^2 with the
    start, the spectral measure of the start has mass c^2 at mu, hence c^2 <= 1 / sum_j p_j(mu)^2 over the orthonormal
    Lanczos polynomials (Christoffel function). A normal start gives P(|c| <= t) <= t sqrt(2/pi) |start| / noise.
    Raises ValueError for an empty start or count < 1. For n < count the missing values are zero.
    """
    columns = np.array(start, dtype=np.float64)
    columns = columns[:, None] if columns.ndim == 1 else columns
    n = columns.shape[0]
    if n == 0 or count < 1:
        raise ValueError(f"start of shape {columns.shape}, count {count}: needs n >= 1 and count >= 1")
    length = float(np.linalg.norm(columns[:, 0]))
    limit = min(n, most_products)
    basis = np.empty((limit, n))
    alpha, beta = np.zeros(limit), np.zeros(limit)
    spare = [column for column in columns.T]
    size, products, scale = 0, 0, 0.0
    following = _direction(spare, basis[:0])
    theta = residual = np.zeros(0)
    done = False
    while following is not None and size < limit and not done:
        basis[size] = following
        product = np.asarray(gram_product(following), dtype=np.float64)
        products += 1
        alpha[size] = following @ product
        scale = max(scale, abs(alpha[size]))
        size += 1
        for _ in range(2):
            product = product - basis[:size].T @ (basis[:size] @ product)
        remaining = float(np.linalg.norm(product))
        if size == n or remaining <= _BREAKDOWN * max(scale, np.finfo(float).tiny):
            beta[size - 1] = 0.0
            following = _direction(spare, basis[:size]) if size < n else None
        else:
            beta[size - 1] = remaining
            following = product / remaining
        if size >= min(count + 1, n) or following is None:
            theta, residual = _ritz(alpha[:size], beta[:size])
            done = _converged(theta, residual, count, tolerance)
    complete = size == n or following is None
    return _certified(theta, residual, alpha[:size], beta[:size], count, products, done or complete, length, noise)


def _direction(spare: list[np.ndarray], basis: np.ndarray) -> np.ndarray | None:
    """The next spare column, made orthonormal to the basis; None when there is none left."""
    while spare:
        column = spare.pop(0).copy()
        before = np.linalg.norm(column)
        for _ in range(2):
            column -= basis.T @ (basis @ column)
        after = np.linalg.norm(column)
        if after > 1e-8 * before > 0:
            return column / after
    return None


def _ritz(alpha: np.ndarray, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ritz values, largest first, and the residual norm of each."""
    if alpha.size == 1:
        return alpha.copy(), np.abs(beta[-1:])
    theta, vectors = scipy.linalg.eigh_tridiagonal(alpha, beta[:-1])
    return theta[::-1], np.abs(beta[-1] * vectors[-1, ::-1])


def _converged(theta: np.ndarray, residual: np.ndarray, count: int, tolerance: float) -> bool:
    if theta.size <= count:
        return False
    gaps = theta[:-1] - theta[1:]
    for rank in range(count):
        gap = min(gaps[rank], gaps[rank - 1]) if rank else gaps[0]
        error = residual[rank]
        if gap > residual[rank]:
            error = min(error, residual[rank] ** 2 / gap)
        if error > 2 * tolerance * max(theta[rank], 1e-15 * theta[0]):
            return False
    return True


def _certified(
    theta: np.ndarray,
    residual: np.ndarray,
    alpha: np.ndarray,
    beta: np.ndarray,
    count: int,
    products: int,
    converged: bool,
    length: float,
    noise: float,
) -> TopSingularValues:
    theta, residual = (np.pad(array[:count], (0, max(0, count - array.size))) for array in (theta, residual))
    values = np.sqrt(np.maximum(theta, 0.0))
    level = _missed_above(alpha, beta, float(theta[-1]), float(theta[0]), length, noise)
    return TopSingularValues(
        values=values,
        lower=np.sqrt(np.maximum(theta - residual, 0.0)),
        upper=np.sqrt(np.maximum(theta + residual, 0.0)),
        missed_above=math.sqrt(level) if math.isfinite(level) else math.inf,
        failure_probability=FAILURE_PROBABILITY,
        products=products,
        converged=converged,
    )


def _missed_above(
    alpha: np.ndarray, beta: np.ndarray, second: float, first: float, length: float, noise: float
) -> float:
    """The smallest eigenvalue level above `second` at which a start hides a value with the failure probability."""
    if noise <= 0 or length <= 0:
        return math.inf
    if first <= 0:
        return 0.0
    cut = np.flatnonzero(beta[:-1] == 0)
    size = int(cut[0]) + 1 if cut.size else alpha.size  # the first Krylov space: the one the random start made
    if beta[size - 1] == 0:
        return second  # the space is invariant: every value the start overlaps with is in it
    needed = math.log(math.sqrt(2 / math.pi) * length / noise / FAILURE_PROBABILITY)

    def hidden(mu: float) -> bool:
        return _log_polynomials(alpha[:size], beta[:size], mu) / 2 < needed

    low, high = second, max(first, second) * 4
    while hidden(high):
        high *= 4
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if hidden(middle) else (low, middle)
    return high


def _log_polynomials(alpha: np.ndarray, beta: np.ndarray, mu: float) -> float:
    """ln sum_j p_j(mu)^2 over the orthonormal polynomials of the Lanczos matrix, rescaled on the way."""
    before, now, total, log_scale = 0.0, 1.0, 1.0, 0.0
    for index in range(alpha.size - 1):
        previous = beta[index - 1] if index else 0.0
        before, now = now, ((mu - alpha[index]) * now - previous * before) / beta[index]
        total += now * now
        if total > 1e200:
            before, now, total, log_scale = (
                before * 1e-100,
                now * 1e-100,
                total * 1e-200,
                log_scale + 200 * math.log(10),
            )
    return math.log(total) + log_scale


def count_above(A: np.ndarray, level: float) -> int:
    """How many singular values of a dense A (m, n) exceed `level`: an exact count by Sylvester's law of inertia.

    One float64 Gram matrix and one LDL^T factorisation of A^T A - level^2; trust it unless a value lies within about
    1e-13 s1^2 / level of the level. Raises ValueError for a negative level.
    """
    if not level >= 0:
        raise ValueError(f"level {level}: must be >= 0")
    work = np.asarray(A, dtype=np.float64)
    work = work if work.shape[0] >= work.shape[1] else work.T
    shifted = work.T @ work
    shifted[np.diag_indices_from(shifted)] -= level**2
    _, blocks, _ = scipy.linalg.ldl(shifted)
    return int(np.sum(scipy.linalg.eigvalsh_tridiagonal(np.diag(blocks), np.diag(blocks, -1)) > 0))
