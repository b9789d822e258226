"""The one-layer model behind the width predictions: moments of A, its all-degrees law and its largest entry."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable

import numpy as np
import scipy.special

from rmt.laws.hermite import HermiteLaw
from rmt.laws.lognormal_softmax import effective_variance, softmax_moment

_NODES = 40


@dataclasses.dataclass(frozen=True)
class Layer:
    """One layer of softmax attention over n tokens with iid (head_dim None) or key-query logits of deviation beta.

    Given its query, row i of key-query logits is iid normal with log-variance beta^2 r, r = |q|^2/d_k, which has the law
    chi^2_{d_k}/d_k: row statistics are exact averages of iid ones over r (Gauss-Laguerre, 40 nodes).
    """

    n: int
    beta: float
    head_dim: int | None = None

    def over_rows(self, statistic: Callable[[np.ndarray], np.ndarray]) -> float:
        """E over rows of a function of the row's log-variance."""
        if self.head_dim is None:
            return float(statistic(np.array([self.beta**2]))[0])
        temperature, weight = self.temperatures
        return float(weight @ statistic(self.beta**2 * temperature))

    @functools.cached_property
    def temperatures(self) -> tuple[np.ndarray, np.ndarray]:
        """Nodes r and weights of chi^2_{d_k}/d_k."""
        assert self.head_dim is not None
        node, weight = scipy.special.roots_genlaguerre(_NODES, self.head_dim / 2 - 1)
        kept = weight > 1e-18 * weight.max()
        return 2 * node[kept] / self.head_dim, weight[kept] / weight[kept].sum()

    @functools.cached_property
    def variance(self) -> float:
        """sigma_n^2 = E ||A||_F^2 - 1, exact."""
        return self.over_rows(lambda v: effective_variance(v, self.n))

    @functools.cached_property
    def entropy(self) -> float:
        """E of a row's entropy in nats, exact: ln n - d/dp E (n A)^p at p = 1 (central difference, error 1e-7)."""
        step = 1e-4

        def slope(v: np.ndarray) -> np.ndarray:
            ends = (softmax_moment(v, self.n, 1 + step), softmax_moment(v, self.n, 1 - step))
            return (ends[0] - ends[1]) / (2 * step)

        return math.log(self.n) - self.over_rows(slope)

    @property
    def column_effect(self) -> float:
        """beta^4/(2 d_k): the variance of key norms lengthens the mean row, a rank-one effect of order one (derived)."""
        return 0.0 if self.head_dim is None else self.beta**4 / (2 * self.head_dim)

    @property
    def mean_row_squared(self) -> float:
        """E |A^T u|^2 = 1 + sigma_n^2/n + column effect, u = 1/sqrt(n): exact for iid logits."""
        return 1 + self.variance / self.n + self.column_effect

    @property
    def top_squared(self) -> float:
        """s_1^2 = |A^T u|^2 + |B A^T u|^2/|A^T u|^2 + ..., B = (I - J) A: the second term is sigma_n^4/n^2."""
        return self.mean_row_squared + self.variance**2 / self.n**2

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

    @functools.cached_property
    def largest_entry(self) -> float:
        """sqrt(n) times the median of the largest entry of A: a/(a + n - 1), a = exp(beta z - beta^2/2).

        z is the median of the maximum of n^2 standard normal numbers.
        """
        z = -float(scipy.special.ndtri(-math.expm1(-math.log(2) / self.n**2)))
        weight = math.exp(min(self.beta * z - self.beta**2 / 2, 700.0))
        return math.sqrt(self.n) * weight / (weight + self.n - 1)

    @property
    def condensation(self) -> float:
        """beta/sqrt(2 ln n): above 1/2 single rows stop averaging, above 1 attention condenses on few tokens."""
        return self.beta / math.sqrt(2 * math.log(self.n)) if self.n > 1 else math.inf

    def limits(self) -> str | None:
        """Why the approximations do not hold here, or None where they do; the exact row averages always hold."""
        if self.n < 200:
            return f"n = {self.n}: calibrated for n >= 200"
        if self.condensation > 0.5:
            return f"beta/sqrt(2 ln n) = {self.condensation:.2f}: above 1/2 rows condense on few tokens; lower beta"
        if self.head_dim is None:
            return None if self.beta <= 1.5 else f"beta = {self.beta:g}: calibrated for beta <= 1.5"
        if self.head_dim < 16:
            return f"head_dim = {self.head_dim}: calibrated for head_dim >= 16"
        if self.beta > 1:
            return f"beta = {self.beta:g}: calibrated for beta <= 1 with key-query logits"
        if self.beta > 0.85 and (self.head_dim < 32 or self.n < 1000):
            return f"beta = {self.beta:g}: above 0.85 calibrated for head_dim >= 32 and n >= 1000"
        return None


@functools.lru_cache(maxsize=256)
def layer(n: int, beta: float, head_dim: int | None = None) -> Layer:
    """A cached Layer: its moments are computed once."""
    return Layer(n, beta, head_dim)
