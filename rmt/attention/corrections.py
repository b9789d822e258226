"""Corrections: constant matrices C added to projection weights W (width, columns) to lower kappa(W + C).

spectral-conditioning fixes C before training and trains W alone. Three ways to choose it, plus controls that have the
same condition number and differ in one thing only:

    shift                   C = shift E, E the identity (or its rectangular form, E^T E = I); the paper's practical choice
    svd                     C = a s_max U V^T with W = U S V^T (Theorem 3.5 has a = 1): kappa' = (1 + a)/(1/kappa + a)
    orthogonal_shared       C = shift O, the same Haar orthonormal O for queries and keys
    orthogonal_independent  C = shift O, another O for every projection

`norm_preserving` multiplies W + C by |W|_F/|W + C|_F: kappa stays that of W + C while the logits keep their size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rmt.ensembles.weights import orthonormal

__all__ = ["CORRECTIONS", "Correction", "identity_block", "svd_correction"]

CORRECTIONS = ("none", "shift", "svd", "orthogonal_shared", "orthogonal_independent")
PLACEMENTS = ("fused", "per_head")


def identity_block(rows: int, columns: int, *, heads: int = 1, placement: str = "fused") -> np.ndarray:
    """E (rows, columns), ones on the diagonal of the fused matrix, or on that of every head's block of columns.

    fused: head h reads its own block of coordinates, E^T E = I if rows >= columns. per_head: every head reads the first
    columns/heads coordinates, so E^T E = I within a head, but the fused matrix has the singular values 0 and sqrt(heads).
    The two differ for heads > 1 only; the paper does not say which it means.
    """
    if placement not in PLACEMENTS:
        raise ValueError(f"placement {placement!r} is unknown; choose from {', '.join(PLACEMENTS)}")
    if heads < 1 or columns % heads:
        raise ValueError(f"{columns} columns do not split into {heads} heads; take a divisor")
    if placement == "fused":
        return np.eye(rows, columns)
    return np.tile(np.eye(rows, columns // heads), (1, heads))


def svd_correction(W: np.ndarray, strength: float = 1.0) -> np.ndarray:
    """C = strength s_max U V^T, W = U S V^T of full rank or not: every singular value rises by strength s_max."""
    U, values, Vt = np.linalg.svd(W, full_matrices=False)
    return strength * values[0] * (U @ Vt)


@dataclass(frozen=True)
class Correction:
    """How one projection is conditioned.

    shift: lambda, for every kind but "none" and "svd"; there it is ignored. heads, placement: see `identity_block`; the
    other kinds treat the matrix whole.
    """

    kind: str = "none"
    shift: float = 0.0
    norm_preserving: bool = False
    heads: int = 1
    placement: str = "fused"

    def __post_init__(self) -> None:
        if self.kind not in CORRECTIONS:
            raise ValueError(f"correction {self.kind!r} is unknown; choose from {', '.join(CORRECTIONS)}")
        if not np.isfinite(self.shift):
            raise ValueError(f"shift {self.shift} is not finite; give a number such as 10")

    @property
    def needs_normals(self) -> bool:
        """Whether `matrix` asks for independent normals."""
        return self.kind.startswith("orthogonal")

    def matrix(self, W: np.ndarray, normals: np.ndarray | None = None) -> np.ndarray:
        """C for W (rows, columns). normals: the shape of W; shared or independent is decided by who passes them."""
        if self.kind == "none":
            return np.zeros_like(W)
        if self.kind == "svd":
            return svd_correction(W)
        if self.kind == "shift":
            return self.shift * identity_block(*W.shape, heads=self.heads, placement=self.placement)
        if normals is None or normals.shape != W.shape:
            raise ValueError(f"{self.kind} needs independent normals of shape {W.shape}")
        return self.shift * orthonormal(normals)

    def conditioned(self, W: np.ndarray, normals: np.ndarray | None = None) -> np.ndarray:
        """W + C, scaled back to |W|_F if `norm_preserving`."""
        moved = W + self.matrix(W, normals)
        if not self.norm_preserving:
            return moved
        size = np.linalg.norm(moved)
        if size == 0:
            raise ValueError("W + C is zero, so its norm cannot be restored; take another shift")
        return moved * (np.linalg.norm(W) / size)
