"""Extreme singular values of an attention Jacobian: dense where it is small, else by products alone, with what is certain.

Where attention is Z_h = P_h X W_V and every P_h X has rank n (so n <= width), J J^T >= J_V J_V^T = (P_h X)(P_h X)^T (x) I on
every head, so
    sigma_min(J) >= mixed = min_h sigma_n(P_h X),   kappa(J) <= sqrt(|J_Q|^2 + |J_K|^2 + |J_V|^2)/mixed     (derived);
with equality sigma_min(J) = mixed where X W_V w = 1 has a solution on the head that attains it, always if e >= n and X W_V
has rank n: (diag p - p p^T) 1 = 0, so J_Q^T and J_K^T annihilate u (x) w for the last left singular vector u of P X.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rmt.attention.jacobian import AttentionJacobian
from rmt.attention.jacobian_smallest import GUESSES, smallest_by_products

__all__ = ["JacobianSpectrum", "jacobian_spectrum", "needed_normals"]

DENSE = 2_000_000  # entries; the singular values take a second or two
TOLERANCE = 1e-8
ROUNDING = 1e-14


@dataclass(frozen=True)
class JacobianSpectrum:
    """Extreme singular values of J over W_Q, W_K and W_V, its known null spaces left out.

    largest, smallest: smallest is the last singular value that must not vanish. method: how it is known: "dense", "identity"
        (sigma_min(PX), exactly), "certified estimate" (a Rayleigh quotient above it, `mixed` below), "estimate" or "unknown".
    mixed: min over heads of sigma_n(P X), 0 where n > rank or attention is no matrix on tokens.
    block_norms: spectral norms of J_Q, J_K and J_V. condition_bound: certified upper bound of kappa, infinite if mixed = 0.
    null: dimensions of the null spaces known by name.
    """

    largest: float
    smallest: float
    method: str
    mixed: float
    block_norms: dict[str, float]
    condition_bound: float
    null: dict[str, int]

    @property
    def condition(self) -> float:
        """kappa(J) = largest/smallest; a lower bound where the method is an estimate, infinite where smallest is rounding."""
        return self.largest / self.smallest if not self.smallest <= self.largest * ROUNDING else np.inf


def needed_normals(jacobian: AttentionJacobian) -> int:
    """How many independent normals `jacobian_spectrum` starts from."""
    n, width, heads = *jacobian.tokens.shape, jacobian.attention.heads
    columns = sum(W.shape[1] for W in (jacobian.weights.query, jacobian.weights.key, jacobian.weights.value)) // heads
    return GUESSES * max(n * jacobian.weights.value.shape[1] // heads, min(n, width) * columns)


def jacobian_spectrum(jacobian: AttentionJacobian, *, start: np.ndarray, dense: int = DENSE) -> JacobianSpectrum:
    """The spectrum of J over the weights, head by head.

    start: independent normals, `needed_normals` of them; dense: the largest number of entries of one head's J that is
    decomposed whole.
    """
    whole = jacobian.only("query", "key", "value")
    null = whole.null_spaces()
    heads = [_one_head(head, start, dense) for head in whole.reduced().each_head()]
    norms = {name: max(head.block_norms[name] for head in heads) for name in whole.blocks}
    mixed = min(head.mixed for head in heads)
    bound = float(np.sqrt(sum(norm**2 for norm in norms.values())) / mixed) if mixed > 0 else np.inf
    worst = min(heads, key=lambda head: head.smallest)
    largest = max(head.largest for head in heads)
    return JacobianSpectrum(largest, worst.smallest, worst.method, mixed, norms, bound, null)


def _one_head(jacobian: AttentionJacobian, start: np.ndarray, dense: int) -> JacobianSpectrum:
    rows, columns = jacobian.shape
    P = jacobian.heads[0].attention
    n, rank = jacobian.tokens.shape
    S = np.zeros(1) if P is None else np.linalg.svd(P @ jacobian.tokens, compute_uv=False)
    mixed = float(S[-1]) if n <= rank and S[-1] > S[0] * n * np.finfo(float).eps else 0.0
    known = min(rows, columns - sum(jacobian.null_spaces().values()))
    nonzero = min(known, rank * rows // n) if jacobian.attention.kind == "xcit" else known
    if rows * columns <= dense:
        J = jacobian.dense()
        values = np.linalg.svd(J, compute_uv=False)
        norms = {
            name: float(np.linalg.norm(block, 2))
            for name, block in zip(jacobian.blocks, jacobian.split(J), strict=True)
        }
        if jacobian.attention.kind == "nystrom":
            nonzero = int(np.count_nonzero(values > values[0] * max(rows, columns) * np.finfo(float).eps))
        largest, smallest, method = float(values[0]), float(values[nonzero - 1]), "dense"
    else:
        largest = _norm(jacobian, start)
        norms = {name: _norm(jacobian.only(name), start) for name in jacobian.blocks[: 3 if P is None else 2]}
        norms.setdefault("value", float(S[0]))
        if mixed > 0 and np.linalg.matrix_rank(jacobian.tokens @ jacobian.weights.value) == n:
            smallest, method = mixed, "identity"
        elif jacobian.attention.kind == "nystrom" or nonzero < known:
            smallest, method = np.nan, "unknown: too large to decompose, and its rank is not known beforehand"
        else:
            smallest = smallest_by_products(jacobian, start, nonzero)
            method = "certified estimate" if mixed > 0 else "estimate"
    return JacobianSpectrum(largest, smallest, method, mixed, norms, np.inf, {})


def _norm(jacobian: AttentionJacobian, start: np.ndarray) -> float:
    """Largest singular value, by Lanczos on J J^T."""
    from scipy.sparse.linalg import LinearOperator, eigsh

    rows = jacobian.shape[0]
    if rows < 3:
        return float(np.linalg.norm(jacobian.dense(), 2))

    def gram(u: np.ndarray) -> np.ndarray:
        return jacobian.matvec(jacobian.rmatvec(u.ravel()))

    if not gram(start[:rows]).any():  # frozen: no direction moves anything, and Lanczos has nothing to start from
        return 0.0

    operator = LinearOperator((rows, rows), matvec=gram, dtype=np.float64)
    top = eigsh(operator, k=1, v0=start[:rows], tol=TOLERANCE, ncv=min(rows, 12), return_eigenvectors=False)
    return float(np.sqrt(max(top[0], 0.0)))
