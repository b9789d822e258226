"""Key-query attention with independent queries and keys: the law of all its singular values but the first."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rmt.laws.delegated import DelegatedLaw
from rmt.laws.harmonics import harmonics, log_projection
from rmt.laws.heavy_entries import excess_kurtosis, with_heavy_entries
from rmt.laws.law import Array
from rmt.laws.lognormal_softmax import effective_variance
from rmt.laws.piece_law import PieceLaw
from rmt.laws.pieces import Pieces
from rmt.laws.types import chi_square_types

DEGREES = 4


@dataclass(frozen=True)
class KeyQueryLaw(DelegatedLaw):
    """Law of the singular values of sqrt(n) (I - 11^T/n) A, A = softmax(beta Q K^T/sqrt(d_k)), Q, K iid N(0, 1).

    n tokens, head_dim d_k, beta the nominal standard deviation of the logits.

    Derivation (heuristic, no proof). n A_ij is close to exp(beta q_i.k_j/sqrt(d_k) - beta^2 r_i/2), r_i = |q_i|^2/d_k.
    In spherical harmonics of the directions of q and k, degree l is a matrix of rank N_l times a profile of the row type
    r_i and the column type c_j = |k_j|^2/d_k; directions are free of each other, all norm fluctuation sits in the
    profiles, and a profile factorises into rows and columns up to (beta^2/d_k)^2. Degrees 1 to 4 are pieces of rank
    N_l/n, the rest is noise. Two corrections of order 1/n: the softmax normaliser (each row profile is scaled to the
    exact effective variance at its own temperature) and heavy entries (`rmt.laws.heavy_entries`, d_k > 16).

    Range: head_dim >= 16, beta <= 1.5, n >= 300 (`in_range`, `validity`). Kolmogorov distance to simulated spectra, n = 1500:
    d_k = 128, beta = 1: .008, .5: .004; 64: .006, .0065; 32: .0065, .004; 16: .022, .010; n = 4096, 64, 1: .004;
    n = 300, 64, 1: .018; n = 1500, 64, 1.5: .006, 32, 1.5: .020; n = 1000, d_k = 1000: .006. Out of range: d_k = 8: .03-.04.
    Leading values, `top_value`, within 2 %, while single entries stay in the bulk (`rmt.laws.single_entries` says when).
    """

    n: int
    head_dim: int
    beta: float

    def __post_init__(self) -> None:
        if self.n < 2 or self.head_dim < 2:
            raise ValueError(f"n = {self.n}, head_dim = {self.head_dim}: the law needs both to be at least 2")
        if not 0 < self.beta <= 6:
            raise ValueError(f"beta = {self.beta}: the law needs 0 < beta <= 6")

    @property
    def validity(self) -> str:
        """Why the law should not be trusted here, or an empty string."""
        limits = [
            (self.head_dim < 16, f"head_dim = {self.head_dim} < 16: few features per degree, the spectrum is a ladder"),
            (self.beta > 1.5, f"beta = {self.beta} > 1.5: single large entries dominate"),
            (self.n < 300, f"n = {self.n} < 300: corrections of order 1/n are not small"),
        ]
        return "; ".join(text for broken, text in limits if broken)

    @functools.cached_property
    def law(self) -> PieceLaw:
        """The numerical law behind the methods, with `table` and `pieces`."""
        return PieceLaw(independent_pieces(self.n, self.head_dim, self.beta), self.n)

    @property
    def edge(self) -> float:
        """The right end of the support."""
        return self.law.edge

    def top_value(self, k: ArrayLike) -> Array:
        """The typical k-th largest singular value; over sqrt(n) it is that of A, counted from its second."""
        return self.law.top_value(k)


def independent_pieces(
    n: int, head_dim: int, beta: float, *, normaliser: bool = True, heavy: bool | None = None
) -> Pieces:
    """The pieces of `KeyQueryLaw`; the two corrections can be left out (heavy: by default on for head_dim > 16).

    Row profile N_l e^(-b r) E_c[b_l(x)^2] and column profile E_r[e^(-b r) b_l(x)^2], x = beta sqrt(d_k r c), b = beta^2, in
    dimension d_k.
    """
    b = beta**2
    types = chi_square_types(head_dim, n)
    r = types.values
    x = beta * np.sqrt(head_dim * np.outer(r, r))
    damp = -b * r[:, None]
    square = 2 * log_projection(0, x, head_dim)
    total = np.exp(square + damp) * np.expm1(log_projection(0, 2 * x, head_dim) - square)
    degrees = range(1, DEGREES + 1)
    kernels = [harmonics(d, head_dim) * np.exp(2 * log_projection(d, x, head_dim) + damp) for d in degrees]
    kernels.append(np.maximum(total - sum(kernels), 0.0))
    rows = np.array([types.mean(kernel) for kernel in kernels])
    columns = np.array([types.weights @ kernel for kernel in kernels])
    mean = columns @ types.weights  # 0 for a degree that is lost in rounding
    columns /= np.where(mean > 0, mean, 1.0)[:, None]
    ranks = np.array([harmonics(d, head_dim) / n for d in degrees] + [np.inf])
    if normaliser:
        rows = rows * effective_variance(b * r, n) / np.expm1(b * r)
    pieces = Pieces(rows, columns, ranks, types.weights, types.weights)
    if heavy is None:
        heavy = head_dim > 16
    if heavy:
        kappa = excess_kurtosis(b * r, n)
        pieces = with_heavy_entries(pieces, kappa, kappa, n=n)
    return pieces
