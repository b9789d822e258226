"""Exact second moments of products of independent random attention matrices, skips included.

Rows of A are exchangeable and sum to one: E A = J = 11^T/n, Var A_ij = a (n - 1)/n and Cov(A_ij, A_ik) = -a/n with
a = sigma_n^2/(n (n - 1)), sigma_n^2 = n E sum_j A_ij^2 - 1 (`effective_variance`). For a fixed vector x with energy
S = |x|^2 and sum c = 1^T x, E (A x)_i^2 = a S + b c^2, b = (1 - n a)/n^2; different rows are independent with mean c/n.
Summed over the columns of X (value weights of variance 1/d leave both sums alone in expectation):

    S = E ||X||_F^2,  C = E |1^T X|^2:
    without skip   S' = n a S + n b C,              C' = ((n - 1)/n + n b) C + n a S
    with           X' = X + s A X W:  S' = S + s^2 (n a S + n b C),  C' = C + s^2 (the C' above)   (W has mean zero)
    A - 11^T/n for A:  S' = n a (S - C/n),  C' = n a (S - C/n)                                      (derived)

Measured over these, n = 50 and 200, 4 layers: 1 to 3 % (tests).
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TokenMoments", "moments_along_depth", "residual_energy"]


@dataclass(frozen=True)
class TokenMoments:
    """S = E ||X||_F^2 and C = E |1^T X|^2 of n tokens."""

    n: int
    energy: float
    sum_energy: float

    @property
    def cosine(self) -> float:
        """Mean inner product of different tokens over the mean squared norm: the cosine where norms are alike."""
        return (self.sum_energy - self.energy) / ((self.n - 1) * self.energy)

    @property
    def residual(self) -> float:
        """E ||(I - J) X||_F^2 / E ||X||_F^2."""
        return 1 - self.sum_energy / (self.n * self.energy)


def moments_along_depth(
    n: int, variance: float, depth: int, *, skip: float | None = None, removed: float = 0.0
) -> list[TokenMoments]:
    """Moments after 0, 1, ..., depth layers from orthonormal tokens (S = C = n up to a common factor).

    variance: sigma_n^2. skip: s, or None. removed: share 1 - eta of the outlier J that is taken off. Range: n >= 2.
    """
    if n < 2:
        raise ValueError(f"n = {n}: moments of attention need at least two tokens")
    a = variance / (n * (n - 1))
    kept = 1 - removed
    state = TokenMoments(n, float(n), float(n))
    found = [state]
    for _ in range(depth):
        mean = state.sum_energy / n  # energy of the mean token, n |m|^2
        noise = n * a * (state.energy - mean)
        energy, total = noise + kept**2 * mean, noise + kept**2 * state.sum_energy
        if skip is not None:
            energy, total = state.energy + skip**2 * energy, state.sum_energy + skip**2 * total
        state = TokenMoments(n, energy, total)
        found.append(state)
    return found


def residual_energy(n: int, variance: float, depth: int) -> float:
    """E ||(I - J) A_depth ... A_1||_F^2 = (n - 1) (sigma_n^2/n)^depth, exact."""
    return (n - 1) * (variance / n) ** depth
