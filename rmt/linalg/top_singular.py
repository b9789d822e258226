"""The leading singular values of a matrix known only by products with its Gram matrix, and what may have been missed.

Lanczos with full reorthogonalisation, in float64, in two stages.

1. From a good guess (the column sums of an attention matrix nearly are its top right singular vector) the first
   count - 1 Ritz vectors Y are found and locked: two or three products when one value leads. If they do not settle in
   a few products, as when nothing leads, none is locked.
2. Block Lanczos on P M P, P = I - Y Y^T, from a *random* block that has not been used before. By interlacing the top
   eigenvalue of P M P is at least the `count`-th of M, whatever Y is, so a bound on it bounds that one too.

The values reported are those of M on Y and the second basis together (Rayleigh-Ritz): lower bounds up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv

from rmt.linalg.blas_threads import one_blas_thread
from rmt.linalg.lanczos import Lanczos

__all__ = ["TopSingularValues", "top_singular_values"]

GramProduct = Callable[[np.ndarray], np.ndarray]
EPS = float(np.finfo(np.float64).eps)
DENSE_SIZE = 32  # up to here all eigenvalues are computed
LOCKING_RESIDUAL = 1e-6  # relative; squared where it matters


@dataclass(frozen=True)
class TopSingularValues:
    """The largest singular values, descending, and how far they can be trusted.

    values: (count,) float64; each is a lower bound of the value of its rank, up to rounding.
    lower, upper: some singular value lies in each [lower, upper] (Ritz residual and measured rounding).
    missed_above: at most max(count - 1, 1) singular values exceed this level (none, where no value leads: the
        certificate says how many), except with `failure_probability` over the random probe. At the hard edge of a bulk
        it is far wider than [lower, upper]: a small residual says that *a* value is near, not that none lies above.
        `rmt.linalg.inertia.certify_by_count` closes that gap for a dense matrix.
    products: columns multiplied by the Gram matrix. converged: whether `tolerance` was met within `max_products`.
    certificate: the same in words.
    """

    values: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    missed_above: float
    failure_probability: float
    products: int
    converged: bool
    certificate: str


def top_singular_values(
    gram_product: GramProduct,
    n: int,
    *,
    probe: np.ndarray,
    count: int = 2,
    start: np.ndarray | None = None,
    tolerance: float = 1e-6,
    missed_tolerance: float = np.inf,
    failure_probability: float = 1e-6,
    max_products: int = 400,
) -> TopSingularValues:
    """The `count` largest singular values of B from products V (n, b) -> B^T B V.

    probe: (n,) or (n, b) independent N(0, 1) numbers, drawn without looking at the matrix or at `start`; its width is
        the block size. One column is fastest for a dense matrix; 4 to 8 pay where products are dear (regenerated
        rows), where many values are nearly equal, and they tighten `missed_above` a great deal.
    start: (n,) guess of the top right singular vector, any length; the column sums for an attention matrix, which is
        also what None means (one product with the constant vector gives B^T B 1 = B^T 1).
    tolerance: goal for the relative error of each value, by the estimate residual^2 / (distance to the next Ritz
        value); `lower` and `upper` do not rely on that estimate.
    missed_tolerance: go on until missed_above <= (1 + missed_tolerance) * the last value.

    At most min(count, n) values are returned. Up to n = 32 all of them are computed, by an eigenvalue solver.

    Bound on what was missed (derived). Let w be the top eigenvector of P M P, eigenvalue mu, and c_j = V_j^T w its
    coordinates in the Lanczos blocks. M V_j = V_{j-1} B_{j-1}^T + V_j A_j + V_{j+1} B_j gives
    B_j^T c_{j+1} = (mu - A_j) c_j - B_{j-1} c_{j-1}, so every c_j is a polynomial of mu times c_0 = R^-T g, where
    P probe = V_0 R and g = probe^T w is N(0, I_b) because w does not depend on the probe. sum |c_j|^2 <= 1 then bounds
    |g|^2 from above (the Christoffel function of the start), while |g|^2 is below the quantile t of chi^2_b only with
    probability `failure_probability`: the level is the mu at which both meet. For b = 1, t = pi p^2 / 2. Up to
    rounding: one column counts on overlaps near p / sqrt(n), no larger than the rounding of float32 products (taken to
    be random); two columns on overlaps 1000 times larger.
    """
    probe = np.asarray(probe, dtype=np.float64).reshape(n, -1)
    guess = np.ones(n) if start is None else np.asarray(start, dtype=np.float64).reshape(n)
    _check(count, probe, guess, failure_probability, max_products)
    if n <= max(DENSE_SIZE, count + 1):
        return _all_values(gram_product, n, count)

    with one_blas_thread():  # for the thin bases; the products have threads of their own
        none = np.empty((n, 0))
        leaders = Lanczos(gram_product, none, none, guess[:, None] if guess.any() else np.ones((n, 1)))
        locking = max(count - 1, 1)
        while True:
            leaders.grow()
            theta, coordinates, residual = leaders.ritz()
            settled = len(theta) >= locking and (residual[:locking] <= LOCKING_RESIDUAL * theta[0]).all()
            if settled or leaders.exhausted or leaders.products >= 6 + 4 * locking:
                break
        locked = images = none
        if settled or leaders.exhausted:
            locked, images = leaders.vectors(coordinates[:, :locking])

        overlap = float(2 * gammaincinv(probe.shape[1] / 2, failure_probability))
        space = Lanczos(gram_product, locked, images, probe, scale=leaders.scale)
        converged, check = False, 0
        while not converged and leaders.products + space.products + probe.shape[1] <= max_products:
            space.grow()
            if space.size < check and not space.exhausted:
                continue
            check = space.size * 13 // 12  # looking costs as much as growing once the space is large
            theta, _, residual = space.ritz()
            converged = len(theta) >= count and (space.exhausted or _settled(theta, residual, count, tolerance, space))
            if converged and missed_tolerance < np.inf:
                converged = (
                    space.missed_level(overlap) <= theta[count - 1] * (1 + missed_tolerance) ** 2 + space.rounding
                )
        theta, _, residual = space.ritz()
        level = space.missed_level(overlap)
        return _report(
            theta[:count],
            residual[:count] + space.rounding,
            level=level,
            exceptions=locked.shape[1],
            failure_probability=failure_probability,
            products=leaders.products + space.products,
            converged=converged,
        )


def _settled(theta: np.ndarray, residual: np.ndarray, count: int, tolerance: float, space: Lanczos) -> bool:
    """Whether the estimated error of the first `count` Ritz values is small, or rounding forbids better."""
    if len(theta) <= count:
        return False
    gap = -np.diff(theta[: count + 1])
    nearest = np.minimum(gap, np.append(np.inf, gap[:-1]))
    theta, residual = theta[:count], residual[:count]
    error = residual**2 / np.maximum(nearest, residual + np.finfo(float).tiny)
    return bool(np.all((error <= 2 * tolerance * theta) | (residual <= space.rounding)))


def _all_values(gram_product: GramProduct, n: int, count: int) -> TopSingularValues:
    M = np.asarray(gram_product(np.eye(n)), dtype=np.float64)
    theta = np.linalg.eigvalsh((M + M.T) / 2)[::-1]
    rounding = float(np.linalg.norm(M - M.T)) / 2 + EPS * n * max(float(theta[0]), 0.0)
    kept = theta[:count]
    level = float(kept[-1])
    return _report(
        kept,
        np.full(len(kept), rounding),
        level=level + rounding,
        exceptions=len(kept) - 1,
        failure_probability=0.0,
        products=n,
        converged=True,
    )


def _report(
    theta: np.ndarray,
    error: np.ndarray,
    *,
    level: float,
    exceptions: int,
    failure_probability: float,
    products: int,
    converged: bool,
) -> TopSingularValues:
    values, lower, upper = (np.sqrt(np.maximum(x, 0.0)) for x in (theta, theta - error, theta + error))
    missed_above = float(np.sqrt(level))
    allowed = (
        ("no singular value", "at most 1 singular value")[exceptions]
        if exceptions < 2
        else (f"at most {exceptions} singular values")
    )
    words = (
        f"residual intervals; {allowed} above {missed_above:.6g}"
        + (f" except with probability {failure_probability:.0e} over the random start" if failure_probability else "")
        + ("" if converged else f"; NOT converged after {products} products")
    )
    return TopSingularValues(values, lower, upper, missed_above, failure_probability, products, converged, words)


def _check(count: int, probe: np.ndarray, guess: np.ndarray, failure_probability: float, max_products: int) -> None:
    if count < 1:
        raise ValueError(f"count must be at least 1, got {count}")
    if probe.shape[1] == 0 or not np.isfinite(probe).all() or not probe.any(axis=0).all():
        raise ValueError("probe must hold finite independent standard normal numbers, at least one column")
    if max_products < 2 * probe.shape[1] + 6 + 4 * max(count - 1, 1):
        raise ValueError(f"max_products = {max_products} leaves no room for two blocks: allow 400, the default")
    if not np.isfinite(guess).all():
        raise ValueError("start holds NaN or infinity: pass the column sums of a finite matrix, or nothing")
    if not 0 < failure_probability < 1:
        raise ValueError(f"failure_probability must lie between 0 and 1, got {failure_probability}")
