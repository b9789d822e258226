"""Second and fourth moments of what is left of the tokens beside their common direction, layer by layer.

Without skip or norm, X = 1 m^T + R. In the directions orthogonal to 1 and to m, R after l layers is a product
B_l ... B_1 X_0 W_1 ... W_l of matrices of n - 1 rows and d - 1 columns: (I - J) A keeps constants apart, and m W is the one
direction that W sends m to, so nothing returns. With N = n - 1, D = d - 1, t_1 = sum s^2 and t_2 = sum s^4 of that block,
averages over a Gaussian factor of N rows (second moment f = sigma_n^2/n a row) and over W (D columns) are exact:

    B:  E t_2' = f^2 [(1 + 1/N) t_2 + (1 + k/N) t_1^2/N],  E t_1'^2 = f^2 [t_1^2 + 2 t_2/N + k t_1^2/N^2]
    W:  E t_2' = (D/d)^2 [(1 + 1/D) t_2 + t_1^2/D],  E t_1'^2 = (D/d)^2 [t_1^2 + 2 t_2/D]

m_4 = E s^4/sigma^4 of sqrt(n)(A - J): 2 + 1/N for Gaussian entries; its excess k/N over that is the kurtosis of the
entries (iid) or the low rank of the logits (key-query; exact there at leading order only).
Leading order: t_2 -> sigma^(4l) n^(1-2l) (1 + l (1 + n/d)).
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TailMoments", "tail_along_depth"]


@dataclass(frozen=True)
class TailMoments:
    """E sum s^2, E (sum s^2)^2 and E sum s^4, tokens scaled so that n |m_0|^2 = 1."""

    first: float
    first_squared: float
    second: float


def tail_along_depth(
    n: int, width: int, variance: float, fourth: float, depth: int, *, gaussian: bool = False
) -> list[TailMoments]:
    """Moments after 1, ..., depth layers; variance sigma_n^2, fourth E s^4, both of A - J.

    From orthonormal tokens, or `gaussian` ones, which are one Gaussian factor more. Range: n, width >= 3. They underflow
    to zero below 1e-308.
    """
    N, D = n - 1, width - 1
    f = variance / n
    kurtosis = N * (fourth / variance**2 - 2) - 1
    first, squared, second = float(N), float(N) ** 2, float(N)
    if gaussian:
        squared, second = _weights(squared, second, D, width)
        first *= D / width
    found = []
    for _ in range(depth):
        squared, second = (
            f**2 * (squared * (1 + kurtosis / N**2) + 2 * second / N),
            f**2 * ((1 + 1 / N) * second + (1 + kurtosis / N) * squared / N),
        )
        squared, second = _weights(squared, second, D, width)
        first *= f * D / width
        found.append(TailMoments(first, squared, second))
    return found


def _weights(squared: float, second: float, D: int, width: int) -> tuple[float, float]:
    """One Gaussian factor of D columns and variance 1/width."""
    scale = (D / width) ** 2
    return scale * (squared + 2 * second / D), scale * ((1 + 1 / D) * second + squared / D)
