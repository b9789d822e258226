"""Softmax regression with infinitely many tokens: curvature, rate and length of a descent.

The excess risk in whitened coordinates is 1/2 |At Bt^T - T|_F^2, T = U S V^T of size p x d with p <= d, and the
regulariser (rho/4) |At^T At / tau - tau Bt^T Bt|_F^2. In the coordinates (At/sqrt(tau), sqrt(tau) Bt) the minimisers
are (U S^(1/2) O, V S^(1/2) O); turn the frame so that U = V = O = I and put s_j = 0 for j > p. The second derivative
then splits into small blocks (derived by expanding both terms to second order):

- risk: for i <= p, j <= d the direction sqrt(s_j) e(A_ij) + sqrt(s_i) e(B_ji), curvature s_i + s_j;
- regulariser: for i < j, i <= p, curvature 2 rho (s_i + s_j), and for i = j curvature 4 rho s_i, in directions
  orthogonal to all of the risk's;
- p(p-1)/2 + p(d-p) flat directions along the manifold of minima, and (d-p)^2 more that are flat to second order only.

So with rho = 1/2 the curvatures lie in [low, 2 s_1], low = 2 s_d for p = d and s_p for p < d: the condition number is
that of the target alone. Without the preconditioner the covariance multiplies it, up to its condition number squared.
Source of the model: "Training Dynamics of Softmax Self-Attention" (goel2026); constants derived here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SOURCE = "goel2026; constants derived, see rmt.theorems.softmax_regression"


def hessian_eigenvalues(singular_values: np.ndarray, width: int, *, rho: float = 0.5) -> np.ndarray:
    """All p d + d^2 curvatures of risk + regulariser at a minimiser, ascending, in whitened balanced coordinates."""
    s = _checked(singular_values, width)
    p, padded = len(s), np.concatenate([s, np.zeros(width - len(s))])
    risk = (s[:, None] + padded[None, :]).ravel()
    i, j = np.triu_indices(width, 1)
    pairs = 2 * rho * (padded[i] + padded[j])[i < p]
    flat = p * (p - 1) // 2 + p * (width - p) + (width - p) ** 2
    return np.sort(np.concatenate([risk, pairs, 4 * rho * s, np.zeros(flat)]))


def whitened_values(covariance: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Singular values of the whitened target M C^(1/2), (p,), largest first: all that the preconditioned descent sees."""
    return np.linalg.svd(target @ _root(covariance), compute_uv=False)


def curvature_range(singular_values: np.ndarray, width: int, *, rho: float = 0.5) -> tuple[float, float]:
    """Least and largest curvature off the flat directions: (2 s_d, 2 s_1) at rho = 1/2, or (s_p, 2 s_1) for p < d.

    Next to the manifold they are also the constants of one-point strong convexity, <grad, w - w*> >= low |w - w*|^2, and
    of smoothness, |grad| <= high |w - w*|, in the weighted norm |At|^2/tau + tau |Bt|^2, w* being the nearest minimum.
    For p < d the first holds off the (d-p)^2 extra flat directions only. A weaker regulariser (0 < rho < 1/2) lowers the
    first by 2 rho, a stronger one raises the second by 2 rho: rho = 1/2 costs no conditioning.
    """
    if not rho > 0:
        raise ValueError(f"rho = {rho}; without a regulariser the factors can be exchanged freely: choose 0.5")
    low, high = _risk_curvatures(singular_values, width)
    return min(1.0, 2 * rho) * low, max(1.0, 2 * rho) * high


def safe_step(singular_values: np.ndarray, *, rho: float = 0.5) -> float:
    """1/(2 s_1), for rho up to 1/2: no direction overshoots."""
    return float(1 / (2 * max(1.0, 2 * rho) * np.max(singular_values)))


def best_step(singular_values: np.ndarray, width: int) -> float:
    """2/(low + high), the fastest; 1/(s_1 + s_d) for p = d."""
    return 2 / sum(curvature_range(singular_values, width))


def excess_rate(singular_values: np.ndarray, width: int, *, step: float | None = None, rho: float = 0.5) -> float:
    """Late factor of the excess risk per preconditioned step: (1 - s_d/s_1)^2 at the safe step, p = d.

    Valid near the minima and for steps below 2/(2 s_1); `step` defaults to the safe one. The regulariser counts by the
    step that it allows. Its own modes touch the excess in second order only, where they decay like `regulariser_rate`.
    """
    low, high = _risk_curvatures(singular_values, width)
    step = safe_step(singular_values, rho=rho) if step is None else step
    longest = 2 / curvature_range(singular_values, width, rho=rho)[1]
    if not 0 < step < longest:
        raise ValueError(f"step = {step}; a descent converges for 0 < step < {longest:.4g}: lower the step")
    return max((1 - step * low) ** 2, (1 - step * high) ** 2)


def regulariser_rate(singular_values: np.ndarray, *, rho: float = 0.5) -> float:
    """(1 - 4 rho s_d step)^4 at the safe step: the late factor of what the slowest imbalance of the factors adds to the excess.

    Below `excess_rate` for rho >= 1/2. At s_1/s_d = 1.15 measured .167 and .093 for rho = .2 and .25, here .18 and .10.
    """
    return float((1 - 4 * rho * np.min(singular_values) * safe_step(singular_values, rho=rho)) ** 4)


def _risk_curvatures(singular_values: np.ndarray, width: int) -> tuple[float, float]:
    s = _checked(singular_values, width)
    return float(2 * s[-1] if len(s) == width else s[-1]), float(2 * s[0])


@dataclass(frozen=True, eq=False)
class LinearDescent:
    """A descent linearised about the minima: excess(k) = 1/2 sum_ab mix_ab (f_a f_b)^k.

    `factors` f (N,) are the contractions 1 - step * curvature of the modes, `mix` (N, N) weighs them by the start.
    `condition` is the ratio of the extreme curvatures off the flat directions.
    """

    factors: np.ndarray
    mix: np.ndarray
    condition: float

    def excess(self, steps: int) -> float:
        """Excess risk after `steps` steps."""
        power = self.factors**steps
        return 0.5 * float(power @ self.mix @ power)

    def steps_to(self, tolerance: float, *, limit: int = 10**8) -> int | None:
        """Fewest steps after which the excess is at most `tolerance`; None if more than `limit`."""
        if self.excess(0) <= tolerance:
            return 0
        high = 1
        while self.excess(high) > tolerance:
            high *= 2
            if high > limit:
                return None
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.excess(middle) <= tolerance else (middle, high)
        return high


def linear_descent(
    covariance: np.ndarray,
    target: np.ndarray,
    *,
    preconditioned: bool,
    displacement: float | np.ndarray,
    step: float | None = None,
    tau: float = 1.0,
    rho: float = 0.5,
) -> LinearDescent:
    """The descent of risk + regulariser from a small displacement off the minimiser with O = I.

    `displacement` is the standard deviation of iid normal entries in whitened balanced coordinates (then `excess` is
    the mean over starts), or the entries themselves, (p d + d^2,), A before B. `step` defaults to one over the largest
    curvature of the coordinates that are descended: whitened (`preconditioned`) or the weights themselves.

    Valid while second-order terms are small: displacement below 1 % of sqrt(s_d) keeps the number of steps to 1e-10
    within 10 % (tested for condition numbers of the covariance up to 100). Raises ValueError for steps that diverge.
    """
    root = _root(covariance)
    risk, balance = _curvatures(target @ root, rho)
    p, d = target.shape
    # theta = change @ weights are the whitened balanced coordinates
    change = np.eye(p * d + d * d)
    if not preconditioned:
        change[: p * d, : p * d] = np.kron(np.eye(p), root) / np.sqrt(tau)
        change[p * d :, p * d :] = np.sqrt(tau) * np.kron(root, root)
    values, vectors = np.linalg.eigh(change.T @ (risk + balance) @ change)
    curved = values > 1e-9 * values[-1]
    step = 1 / float(values[-1]) if step is None else step
    if not 0 < step < 2 / values[-1]:
        raise ValueError(f"step = {step}; a descent converges for 0 < step < {2 / values[-1]:.4g}: lower the step")
    back = np.linalg.solve(change, np.eye(len(change)))
    if np.ndim(displacement) == 0:
        spread = float(displacement) ** 2 * back @ back.T
    else:
        spread = np.outer(back @ displacement, back @ displacement)
    mix = (vectors.T @ change.T @ risk @ change @ vectors) * (vectors.T @ spread @ vectors)
    return LinearDescent(1 - step * values, mix, float(values[-1] / values[curved][0]))


def _curvatures(whitened_target: np.ndarray, rho: float) -> tuple[np.ndarray, np.ndarray]:
    """Second derivatives of risk and regulariser at the minimiser O = I, in whitened balanced coordinates.

    Both are Gauss-Newton there, since At Bt^T - T and the imbalance vanish: J^T J with the Jacobians below.
    """
    p, d = whitened_target.shape
    left, s, right = np.linalg.svd(whitened_target, full_matrices=False)
    A = np.pad(left * np.sqrt(s), ((0, 0), (0, d - p)))
    B = np.pad(right.T * np.sqrt(s), ((0, 0), (0, d - p)))
    product, imbalance = [], []
    for unit in np.eye(p * d + d * d):
        dA, dB = unit[: p * d].reshape(p, d), unit[p * d :].reshape(d, d)
        product.append((dA @ B.T + A @ dB.T).ravel())
        tilt = dA.T @ A - dB.T @ B
        imbalance.append((tilt + tilt.T).ravel())
    first, second = np.array(product), np.array(imbalance)
    return first @ first.T, 0.5 * rho * second @ second.T


def _root(covariance: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(covariance)
    if values[0] <= 0:
        raise ValueError(f"covariance has the eigenvalue {values[0]:.3g}; it must be positive definite")
    return (vectors * np.sqrt(values)) @ vectors.T


def _checked(singular_values: np.ndarray, width: int) -> np.ndarray:
    s = np.sort(np.asarray(singular_values, float))[::-1]
    if s.ndim != 1 or not 1 <= len(s) <= width or not (np.isfinite(s).all() and s[-1] > 0):
        raise ValueError(f"singular values {singular_values}; give 1 to {width} positive numbers, one per output")
    return s
