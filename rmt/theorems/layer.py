"""The one-layer model behind the width predictions: moments of A, its all-degrees law and its largest entry."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable

import numpy as np
import scipy.linalg
import scipy.special

from rmt.laws.hermite import HermiteLaw
from rmt.laws.lognormal_softmax import effective_variance, softmax_moment
from rmt.theorems.light_weights import LightWeights
from rmt.theorems.prediction import MOST_RANKS

_NODES = 32


@dataclasses.dataclass(frozen=True)
class Layer:
    """One layer of attention over n tokens with iid (head_dim None) or key-query logits of deviation beta.

    `light` replaces the softmax of iid normal logits by normalised weights of light tails; `beta` then says nothing.

    Given its query, row i of key-query logits is iid normal with log-variance beta^2 r, r = |q|^2/d_k, which has the law
    chi^2_{d_k}/d_k: row statistics are exact averages of iid ones over r (Gauss quadrature, 32 nodes).
    """

    n: int
    beta: float
    head_dim: int | None = None
    light: LightWeights | None = None

    @property
    def uniform(self) -> bool:
        """Whether every row is uniform: one token, or no spread of the logits."""
        return self.n == 1 or (self.light is None and self.beta == 0)

    @property
    def heavy(self) -> float:
        """How heavy the tail of a weight is: beta of lognormal weights, 0 of light ones."""
        return self.beta if self.light is None else 0.0

    def row_variance(self, v: np.ndarray) -> np.ndarray:
        """sigma_n^2 of rows of log-variance v."""
        return (
            effective_variance(v, self.n) if self.light is None else np.full(np.shape(v), self.light.variance(self.n))
        )

    def over_rows(self, statistic: Callable[[np.ndarray], np.ndarray]) -> float:
        """E over rows of a function of the row's log-variance."""
        temperature, weight = self.temperatures
        return float(weight @ statistic(self.beta**2 * temperature))

    @functools.cached_property
    def temperatures(self) -> tuple[np.ndarray, np.ndarray]:
        """Nodes r and weights of chi^2_{d_k}/d_k (r = 1 for iid logits), from the Jacobi matrix: any d_k, no overflow."""
        if self.head_dim is None:
            return np.ones(1), np.ones(1)
        k, alpha = np.arange(_NODES), self.head_dim / 2 - 1
        node, vector = scipy.linalg.eigh_tridiagonal(2 * k + 1 + alpha, np.sqrt(k[1:] * (k[1:] + alpha)))
        weight = vector[0] ** 2
        kept = weight > 1e-18
        return 2 * node[kept] / self.head_dim, weight[kept] / weight[kept].sum()

    @functools.cached_property
    def variance(self) -> float:
        """sigma_n^2 = E ||A||_F^2 - 1, exact."""
        return self.over_rows(self.row_variance)

    @functools.cached_property
    def entropy(self) -> float:
        """E of a row's entropy in nats, exact: ln n - d/dp E (n A)^p at p = 1 (central difference, error 1e-7)."""
        if self.light is not None:
            return self.light.entropy(self.n)
        step = 1e-4

        def slope(v: np.ndarray) -> np.ndarray:
            ends = (softmax_moment(v, self.n, 1 + step), softmax_moment(v, self.n, 1 - step))
            return (ends[0] - ends[1]) / (2 * step)

        return math.log(self.n) - self.over_rows(slope)

    @property
    def column_effect(self) -> float:
        """The variance of key norms lengthens the mean row: a rank-one effect of order one, beta^4/(2 d_k) (derived).

        Two rows of queries q, q' share E_k F F' = e^tau, tau = beta^2 q.q'/d_k, and E e^tau = (1 - s^2)^(-d_k/2) with
        s = beta^2/d_k. Expanding both normalisers lowers it by the factor 1 - (6 e^(beta^2) - 3)/n + O(n^-2).
        """
        if self.head_dim is None or self.beta**2 >= self.head_dim:
            return 0.0
        raw = math.expm1(-self.head_dim / 2 * math.log1p(-((self.beta**2 / self.head_dim) ** 2)))
        return raw / (1 + (6 * math.exp(min(self.beta**2, 50.0)) - 3) / self.n)

    @property
    def mean_row_squared(self) -> float:
        """E |A^T u|^2 = 1 + sigma_n^2/n + column effect, u = 1/sqrt(n): exact for iid logits, where the effect is zero."""
        return 1 + self.variance / self.n + self.column_effect

    @property
    def top_squared(self) -> float:
        """s_1^2 = |A^T u|^2 + |B A^T u|^2/|A^T u|^2 + ..., B = (I - J) A: the second term is small, sigma^2/n of the excess."""
        return self.mean_row_squared + (self.mean_row_squared - 1) * self.variance / self.n

    @functools.cached_property
    def law(self) -> HermiteLaw:
        """The law of the singular values of sqrt(n) (A - J)."""
        return HermiteLaw(self.n, self.variance, self.beta, self.head_dim)

    @functools.cached_property
    def fourth_moment(self) -> float:
        """E s^4 of the singular values of sqrt(n) (A - J), with entry kurtosis (iid) or row and column types.

        iid: 2 sigma^4 + (mu_4 - 3 sigma^4)/n with the exact fourth central moment of n A_ij. Key-query, profiles of the
        degrees in the row type r and the column type c, f_l = (b r)^l/l!, g_l ~ c^l e^(b c) with mean one, b = beta^2:
        E_r[sigma_n^4(b r)] + E_c[(sum v_l g_l)^2] + sum v_l^2/phi_l, v_l = E_r f_l (derived; within 3 % of measurement for
        d_k >= 64, beta <= 1, n >= 512).
        """
        if self.head_dim is None:
            if self.light is not None:
                moments = [self.light.moment(self.n, power) for power in (2, 3, 4)]
                fourth = moments[2] - 4 * moments[1] + 6 * moments[0] - 3
            elif self.beta < 0.1:  # the central moment would cancel; the normaliser is then negligible
                q = math.exp(self.beta**2)
                fourth = self.variance**2 * (q**4 + 2 * q**3 + 3 * q**2 - 3)
            else:
                moments = [float(softmax_moment(self.beta**2, self.n, power)) for power in (2, 3, 4)]
                fourth = moments[2] - 4 * moments[1] + 6 * moments[0] - 3
            return 2 * self.variance**2 + (fourth - 3 * self.variance**2) / self.n
        r, weight = self.temperatures
        b = self.beta**2
        rank = self.law.pieces[0]
        degree = np.arange(1, rank.size + 1)[:, None]
        powers = (
            np.exp(degree * np.log(b * r) - scipy.special.gammaln(degree + 1)) if rank.size else np.zeros((0, r.size))
        )
        mean = powers @ weight
        profile = np.exp(np.concatenate([degree, [[rank.size + 1]]]) * np.log(r) + b * (r - 1))
        profile /= (profile @ weight)[:, None]
        columns = np.append(mean, max(self.variance - mean.sum(), 0.0)) @ profile
        ratio = self.law.pieces[1]
        rows = effective_variance(b * r, self.n)
        return float(weight @ rows**2 + weight @ columns**2 + np.sum(mean**2 / ratio))

    def large_entry(self, rank: int) -> float:
        """sqrt(n) times the median of the rank-th largest entry of A: a/(a + n - 1), a = exp(beta z - beta^2/2).

        The number of n^2 standard normal numbers above z is Poisson; z is where its mean is the median of Gamma(rank).
        """
        return self.entry_beyond(float(scipy.special.gammaincinv(rank, 0.5)) / self.n**2)

    def entry_beyond(self, tail: float) -> float:
        """sqrt(n) times the size that an entry of A exceeds with probability `tail`."""
        tail = min(tail, 0.5)
        if self.light is not None:
            weight = self.light.quantile(tail)
            return math.sqrt(self.n) * weight / (weight + self.n - 1)
        z = -float(scipy.special.ndtri(tail))
        weight = math.exp(min(self.beta * z - self.beta**2 / 2, 700.0))
        return math.sqrt(self.n) * weight / (weight + self.n - 1)

    @functools.cached_property
    def largest_entry(self) -> float:
        """sqrt(n) times the median of the largest entry of A."""
        return self.large_entry(1)

    @functools.cached_property
    def leading(self) -> tuple[tuple[float, bool], ...]:
        """Medians of the largest singular values of A - 11^T/n, and whether a single entry carries each: 8 pairs.

        Entries outside the bulk come first, by the entry rule; then the bulk in its own order (`HermiteLaw.largest`).
        """
        edges = [self.law.edge(entry=self.large_entry(rank)) for rank in range(1, MOST_RANKS + 1)]
        outside = [math.sqrt(edge.square / self.n) for edge in edges if edge.detached]
        inside = self.law.largest(MOST_RANKS - len(outside)) / math.sqrt(self.n)
        return tuple((value, True) for value in outside) + tuple((float(value), False) for value in inside)

    @property
    def condensation(self) -> float:
        """beta/sqrt(2 ln n): above 1/2 single rows stop averaging, above 1 attention condenses on few tokens."""
        return self.heavy / math.sqrt(2 * math.log(self.n)) if self.n > 1 else math.inf

    def row_limits(self) -> str | None:
        """Why a row average cannot be computed, or None: the exact integral covers log-variances up to 400."""
        largest = self.heavy**2 * float(self.temperatures[0].max())
        return (
            f"log-variance {largest:.3g} of the hottest rows: computed up to 400; lower beta" if largest > 400 else None
        )

    def limits(self) -> str | None:
        """Why the approximations do not hold here, or None where they do; the exact row averages always hold."""
        if self.n < 200:
            return f"n = {self.n}: calibrated for n >= 200"
        if self.condensation > 0.5:
            return f"beta/sqrt(2 ln n) = {self.condensation:.2f}: above 1/2 rows condense on few tokens; lower beta"
        if self.head_dim is None:
            return None if self.heavy <= 1.5 else f"beta = {self.beta:g}: calibrated for beta <= 1.5"
        if self.head_dim < 16:
            return f"head_dim = {self.head_dim}: calibrated for head_dim >= 16"
        if self.beta > 1:
            return f"beta = {self.beta:g}: calibrated for beta <= 1 with key-query logits"
        if self.beta > 0.85 and (self.head_dim < 32 or self.n < 1000):
            return f"beta = {self.beta:g}: above 0.85 calibrated for head_dim >= 32 and n >= 1000"
        return None


@functools.lru_cache(maxsize=256)
def layer(n: int, beta: float, head_dim: int | None = None, light: LightWeights | None = None) -> Layer:
    """A cached Layer: its moments are computed once."""
    return Layer(n, beta, head_dim, light)
