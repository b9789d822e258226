"""One layer whose queries, keys and values see the same tokens X: what values carry coherently, noise, and the mean token."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from rmt.laws.lognormal_softmax import effective_variance
from rmt.laws.shared_tokens import degree_weights
from rmt.laws.token_scales import Scales
from rmt.laws.types import Types, chi_square_types
from rmt.theorems.shared_scales import Comparison, comparison


@dataclass(frozen=True)
class SharedLayer:
    """A = softmax(beta X W_Q W_K^T X^T/sqrt(d_k)), T = A X W_V: n tokens of `width`, weights iid of variance 1/width.

    tokens: "gaussian" (iid entries) or "layernorm" (rows of mean zero and length sqrt(width)). Outputs of several heads stand
    side by side, value_width columns in all; kv_heads: heads of keys and values, which groups share (None: no sharing).
    position, norm: "rope" turns queries and keys, "qk" normalises them (`rmt.theorems.shared_scales`).
    """

    n: int
    beta: float
    width: int
    head_dim: int
    value_width: int
    tokens: str
    heads: int = 1
    kv_heads: int | None = None
    position: str = "none"
    norm: str = "none"

    @property
    def columns(self) -> int:
        """Columns of the values that differ: heads that share values repeat them."""
        return self.value_width * (self.kv_heads or self.heads) // self.heads

    @property
    def share(self) -> float:
        """rho, the value width of one head over the width of the tokens."""
        return self.value_width / self.heads / self.width

    @functools.cached_property
    def comparison(self) -> Comparison:
        """How queries and keys compare the tokens."""
        way = {"tokens": self.tokens, "position": self.position, "norm": self.norm}
        return comparison(self.n, self.width, self.head_dim, **way)

    @property
    def scales(self) -> Scales:
        """Typical canonical scales of the weights."""
        return self.comparison.scales

    @functools.cached_property
    def types(self) -> Types:
        """Row variances over beta^2."""
        return chi_square_types(self.comparison.spread, self.n)

    @functools.cached_property
    def coherent(self) -> float:
        """The part of the degree-one energy beta^2 r of A that values see coherently.

        RoPE leaves the slow pairs; on the sphere of QK-norm degree one is N_1 b_1^2/b_0^2, 2 beta^2/(d_k + 2) less than beta^2.
        """
        share = self.comparison.coherent
        if self.norm != "qk":
            return share
        variance = np.array([self.beta**2])
        return float(share * degree_weights(variance, self.scales.sphere)[0][0, 0] / variance[0])

    @functools.cached_property
    def row_variances(self) -> np.ndarray:
        """sigma_n^2 of rows by type: that of Gaussian logits, times the lighter tail of tokens on a sphere."""
        variance = self.beta**2 * self.types.values
        gaussian = effective_variance(variance, self.n)
        return np.asarray(gaussian * degree_weights(variance, self.scales.sphere)[1] / np.expm1(variance))

    @property
    def variance(self) -> float:
        """E ||(I - J) A||_F^2."""
        return float(self.types.mean(self.row_variances))

    @property
    def column_effect(self) -> float:
        """The spread of column types lengthens the mean row, beta^4/(2 d_e)."""
        effective = self.comparison.spread
        return math.expm1(-effective / 2 * math.log1p(-((self.beta**2 / effective) ** 2)))

    @property
    def mean_row_squared(self) -> float:
        """E |A^T u|^2, u = 1/sqrt(n)."""
        return 1 + self.variance / self.n + self.column_effect

    @functools.cached_property
    def eigenvalue_moments(self) -> tuple[float, float]:
        """E l and E l^2 over the value_width eigenvalues l of T_c^T T_c, T_c = (I - J) T.

        Tilting, E_k F(q, k) k x = (beta/sqrt d_k) C W_K q: attention carries token information coherently, T_c = Y S + N with
        S = (beta/sqrt d_k) W_Q W_K^T Ch W_V, Ch = X^T X/n, and noise N of row variance V(r)/n, V = sigma_n^2(b r) - b r. With
        gamma = width/n, delta = d_k/width, kappa = n beta^2/d_k, rho = share, and free weights and tokens:
            E l = kappa delta (1 + gamma) + V,
            E l^2 = (E l)^2 + (rho + 1/width) M2 + (heads - 1) rho (1 + gamma) (kappa delta (1 + gamma))^2
                    + (value_width/n) (xi V^2 + 2 V kappa delta (1 + gamma)),
            M2 = V^2 (1 + gamma) + 2 kappa V delta (1 + 3 gamma + gamma^2)
                 + kappa^2 [(t4 - t2^2) delta^2 + t2^2 (delta (1 + 2 delta) + gamma delta^2)],
        t2 = 1 + gamma, t4 = 1 + 6 gamma + 6 gamma^2 + gamma^3, xi = E V^2/(E V)^2 (moments of Wishart matrices).
        Under RoPE values see the mean of turned keys: fast pairs become noise, d_k is that of the coherent ones alone.
        """
        coherent = self.coherent
        noise = np.maximum(self.row_variances - coherent * self.beta**2 * self.types.values, 0.0)
        v = float(self.types.mean(noise))
        square = float(self.types.mean(noise**2))
        gamma, delta = self.width / self.n, coherent * self.head_dim / self.width
        kappa, rho = self.n * self.beta**2 / self.head_dim, self.share
        t2, t4 = 1 + gamma, 1 + 6 * gamma + 6 * gamma**2 + gamma**3
        signal = kappa * delta * t2
        mean = signal + v
        second = v**2 * (1 + gamma) + 2 * kappa * v * delta * (1 + 3 * gamma + gamma**2)
        second += kappa**2 * ((t4 - t2**2) * delta**2 + t2**2 * (delta * (1 + 2 * delta) + gamma * delta**2))
        share = self.value_width / self.n
        second = (rho + 1 / self.width) * second + (self.heads - 1) * rho * t2 * signal**2
        return mean, mean**2 + second + share * (square + 2 * v * signal)

    @property
    def mean_token(self) -> float:
        """E of the squared length of sqrt(n) times the mean token."""
        return self.value_width * (1 + self.column_effect)

    @functools.cached_property
    def top_squared(self) -> float:
        """s_1(T)^2: the mean token g among the eigenvalues l: 1 = g^T (s_1^2 - T_c^T T_c)^-1 g, closed by two moments of l.

        g = W_V^T z leans on the large l of W_V^T M W_V: they weigh (1 + rho) E l along g.
        """
        first, spread = self._along_mean
        length = self.mean_token
        return first + (length + math.sqrt(length**2 + 4 * spread)) / 2

    @property
    def _along_mean(self) -> tuple[float, float]:
        """Mean and variance of l along the mean token."""
        mean, second = self.eigenvalue_moments
        rho = self.share
        core = (second - mean**2) / (rho + 1 / self.width)
        return (1 + rho) * mean, max(core * rho * (1 + rho) - (rho * mean) ** 2, 0.0)

    @property
    def excess(self) -> float:
        """E of the Gram stable rank of T minus one; the length of the mean token scatters like chi^2 of the `columns`."""
        first, spread = self._along_mean
        d, top = self.columns, self.top_squared
        rest = self.value_width * self.eigenvalue_moments[1] - first**2 - 2 * spread
        return rest / top**2 * d**2 / ((d - 2) * (d - 4))

    @property
    def rivals(self) -> float:
        """The largest coherent eigenvalue over the mean token's: (n beta^2/(d d_k)) (1 + sqrt(d_k/value columns))^2.

        S has rank d_k; on it l ~ (n beta^2/d_k) times a Wishart matrix of value_width/d. Near one the two mix, and the mean
        token no longer carries s_1.
        """
        lead = self.coherent * self.n * self.beta**2 / (self.width * self.head_dim)
        return lead * (1 + math.sqrt(self.head_dim / self.columns)) ** 2

    @property
    def energy(self) -> float:
        """E ||T||_F^2."""
        return self.value_width * self.eigenvalue_moments[0] + self.mean_token

    @property
    def cosine(self) -> float:
        """Average cosine of two tokens: both share the mean token."""
        spread = 1 / self.comparison.spread  # of one head; that of the average over heads:
        common = 1 / self.width - (1 / self.scales.sphere if self.scales.sphere else 0.0)
        types = chi_square_types(self.heads / (spread + (self.heads - 1) * max(common, 0.0)), self.n)
        variances = np.interp(types.values, self.types.values, self.row_variances)
        own = self.coherent * self.beta**2 * types.values * self.n / self.width + variances
        return float(types.mean(1 / np.sqrt(1 + own))) ** 2

    def limits(self) -> str | None:
        """Why the predictions do not hold here, or None."""
        rules = [
            (self.n < 256, f"n = {self.n}: calibrated for n >= 256"),
            (self.beta > 1, f"beta = {self.beta:g}: calibrated for beta <= 1 with shared tokens"),
            (
                self.position == "rope" and self.n > 16 * self.width,
                f"n = {self.n}, width = {self.width}: under RoPE calibrated for n <= 16 width",
            ),
            (self.head_dim < 16, f"head_dim = {self.head_dim}: calibrated for head_dim >= 16"),
        ]
        if (reason := next((text for broken, text in rules if broken), None)) is not None:
            return reason
        effective = self.comparison.spread  # of heads that are not narrow
        rules = [
            (
                effective < 12,
                f"effective dimension {effective:.3g} < 12: few directions carry the logits; widen the tokens",
            ),
            (self.columns < 32, f"{self.columns} different value columns: calibrated for value widths from 32 on"),
        ]
        return next((text for broken, text in rules if broken), None)


@functools.lru_cache(maxsize=64)
def layer(
    n: int,
    beta: float,
    width: int,
    head_dim: int,
    value_width: int,
    tokens: str,
    heads: int = 1,
    kv_heads: int | None = None,
    position: str = "none",
    norm: str = "none",
) -> SharedLayer:
    """A cached layer."""
    return SharedLayer(n, beta, width, head_dim, value_width, tokens, heads, kv_heads, position, norm)
