"""Local attention: a causal window of w keys, or a linear bias of slope m on the logits (ALiBi).

The mean of row i is a moving average, a band with a symbol; the noise has the same variance tau^2 in every row and column but
the first. Away from the first tokens the singular values s of A over n tokens follow a scalar equation,

    delta = tau^2 < 1/(D(th)^2/(1 + delta) - z (1 + delta)) >,   th uniform in (0, pi),   (1/n) tr (A A^T - z)^-1 = delta/tau^2

(derived: information plus noise, D the modulus of the symbol). The first tokens see fewer keys: there A is causal attention,
and its ladder reaches above 1, the norm of a moving average.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse.linalg
from numpy.typing import ArrayLike
from scipy import optimize

from rmt.laws.averages import ladder_values, terraced_singular_values
from rmt.laws.causal import CausalLaw, phase_shift
from rmt.laws.counting import count_above
from rmt.laws.law import Array
from rmt.laws.tabulated import TabulatedLaw
from rmt.laws.types import ONE_TYPE, chi_square_types

_NODES = 600


def window_symbol(window: int, theta: ArrayLike) -> Array:
    """|sin(w th/2)/(w sin(th/2))|, the modulus of the symbol of the mean of w tokens, th in (0, pi]."""
    theta = np.asarray(theta, float)
    return np.abs(np.sin(window * theta / 2) / (window * np.sin(theta / 2)))


def bias_symbol(slope: float, theta: ArrayLike) -> Array:
    """(1 - r)/|1 - r e^(i th)|, r = e^-slope: exponentially weighted means."""
    r = math.exp(-slope)
    return (1 - r) / np.sqrt(1 - 2 * r * np.cos(np.asarray(theta, float)) + r * r)


def effective_window(slope: float, tokens: ArrayLike) -> Array:
    """1/sum of squared mean weights of a row of i tokens: (1 - r^i)(1 + r)/((1 - r)(1 + r^i)), tending to coth(slope/2)."""
    r, decayed = math.exp(-slope), np.exp(-slope * np.asarray(tokens, float))
    return (1 - decayed) * (1 + r) / ((1 - r) * (1 + decayed))


def window_singular_values(window: int, n: int, count: int) -> Array:
    """The `count` largest singular values of the mean of the last `window` tokens over n tokens, by Lanczos on running sums."""
    seen = np.minimum(np.arange(1, n + 1), window)

    def back(y: Array) -> Array:
        total = np.cumsum((y / seen)[::-1])[::-1]
        total[:-window] -= total[window:].copy()
        return total

    def gram(x: Array) -> Array:
        total = np.cumsum(x)
        total[window:] -= total[:-window].copy()
        return back(total / seen)

    operator = scipy.sparse.linalg.LinearOperator((n, n), matvec=gram, dtype=float)
    squares = scipy.sparse.linalg.eigsh(operator, k=count, v0=1 / np.arange(1.0, n + 1), return_eigenvectors=False)
    return np.sqrt(np.sort(squares)[::-1])


def biased_row_squares(log_variance: float, slope: float, rows: Array) -> Array:
    """E sum_j A_ij^2 for rows i that see i tokens, weights r^k e^x, r = e^-slope, x of the given variance; exact.

    E sum_j A_j^2 = Int t sum_j E[a_j^2 e^(-t a_j)] prod_(k != j) E[e^(-t a_k)] dt as in `rmt.laws.lognormal_softmax`; in log t
    the k-th weight is the first one moved by slope * k. Relative error below 1e-4 for slope <= .5.
    """
    step, root = 0.1, math.sqrt(log_variance)
    x = np.arange(-9.0, 9.0 + 2 * root, 0.1)
    normal = np.exp(-x * x / 2) * 0.1 / math.sqrt(2 * math.pi)
    deepest = min(float(rows.max()), 45 / slope)
    log_t = np.arange(-14.0 - 8 * root - math.log(deepest), 9 * root + 6, step)
    lower = np.arange(log_t[0] - slope * deepest - step, log_t[-1] + step, step)
    y = lower[:, None] + root * x
    weight = np.exp(np.minimum(y, 700.0))
    log_laplace = np.log1p(-np.minimum(-np.expm1(-weight) @ normal, 1 - 2.0**-53))
    share = np.exp(2 * np.minimum(y, 350.0) - weight) @ normal / np.exp(log_laplace)
    out = np.empty(rows.size)
    total, weights, done = np.zeros(log_t.size), np.zeros(log_t.size), 0
    for at in np.argsort(rows):
        for k in range(done, int(min(rows[at], deepest))):
            total += np.interp(log_t - slope * k, lower, log_laplace)
            weights += np.interp(log_t - slope * k, lower, share)
            done = k + 1
        out[at] = np.sum(weights * np.exp(total)) * step
    return out


def plateau_values(window: int, n: int, count: int) -> Array:
    """The `count` largest of the band itself, near 1: 1 - (w^2 - 1)/24 (k pi/n)^2, k = 1, 2, ...; for w k << n."""
    return 1 - (window**2 - 1) / 24 * (np.arange(1, count + 1) * math.pi / n) ** 2


def band_count(window: int, n: int, value: float) -> float:
    """How many singular values of the mean band lie above a value in (.22, 1): 2 n u/(pi w), sin u/u = value."""
    if not 0.22 < value < 1:
        raise ValueError(f"value = {value}: between .22, the first side lobe, and 1")
    u = optimize.brentq(lambda u: math.sin(u) / u - value, 1e-9, math.pi)
    return 2 * n * u / (math.pi * window)


@dataclass(frozen=True, eq=False)
class BandEquation:
    """The scalar equation: squares (m,) of D at equally likely th, and the noise tau^2 > 0; traces are over n."""

    squares: Array
    noise: float

    def start(self, z: Array) -> Array:
        return -self.noise / z[None, :]

    def excess(self, z: Array, state: Array) -> Array:
        return 1 + z * state[0] / self.noise

    def solve(self, z: Array, state: Array, *, tolerance: float) -> Array:
        """Newton's method, damped iteration where it strays from the upper half plane."""
        delta = state[0].copy()
        for _ in range(300):
            shift = 1 + delta
            inner = 1 / (self.squares[:, None] / shift - z * shift)
            value = self.noise * inner.mean(axis=0)
            slope = self.noise * (inner**2 * (self.squares[:, None] / shift**2 + z)).mean(axis=0)
            step = (value - delta) / (1 - slope)
            good = np.isfinite(step) & ((delta + step).imag > 0)
            new = np.where(good, delta + step, (delta + value) / 2)
            moved = np.abs(new - delta) / np.abs(new)
            delta = new
            if moved.max() < tolerance * 1e-3:
                return delta[None]
        raise ArithmeticError(f"the band equation did not converge at {np.count_nonzero(moved > tolerance)} points")


@dataclass(frozen=True)
class LocalAttention:
    """Softmax attention of logit deviation beta over n tokens, each row over its own last `window` tokens or under a slope.

    Exactly one of window (>= 2) and slope (> 0) is given. head_dim: d_k of key-query logits, None for iid ones.

    Measured (n = 2000, 1000): s_1 within 1 % for w = 32 to 256 and slopes .02, .004, beta = .5, 1; Kolmogorov distance of
    `law`, w = 16, 64: .015 (beta = .5), .03 (1); w = 256: .055, which is the ramp, of order w/n; slope .02: .016, .04.
    Range: beta <= 1; 16 <= window <= n/4; 5/n <= slope <= .1 (`validity`); below slope 5/n attention is causal.
    """

    n: int
    beta: float
    window: int | None = None
    slope: float | None = None
    head_dim: int | None = None

    def __post_init__(self) -> None:
        if (self.window is None) == (self.slope is None):
            raise ValueError(f"window = {self.window}, slope = {self.slope}: give exactly one of them")
        if not (self.n >= 2 and 0 < self.beta <= 6):
            raise ValueError(f"n = {self.n}, beta = {self.beta}: needs n >= 2 and 0 < beta <= 6")

    @property
    def validity(self) -> str:
        """Why the law should not be trusted here, or an empty string."""
        if self.beta > 1:
            return f"beta = {self.beta:g} > 1: entries of the first rows do not average"
        if self.head_dim is not None and self.head_dim < 16:
            return f"head_dim = {self.head_dim} < 16: few features"
        if self.window is not None and not 16 <= self.window <= self.n / 4:
            return f"window = {self.window}, n = {self.n}: needs 16 <= window <= n/4"
        if self.slope is not None and not 5 / self.n <= self.slope <= 0.1:
            return f"slope = {self.slope:g}, n = {self.n}: needs 5/n <= slope <= .1; below, attention is causal"
        return ""

    @property
    def reach(self) -> float:
        """Tokens that a late row averages: w, or coth(slope/2)."""
        return float(self.window or 1 / math.tanh((self.slope or 1.0) / 2))

    @functools.cached_property
    def _rows(self) -> CausalLaw:
        return CausalLaw(max(2, math.ceil(self.reach)), self.beta, self.head_dim)

    @property
    def row_variance(self) -> float:
        """sigma_w^2 of a late row, under a slope taken as a window of its reach."""
        return float(self._rows.row_variance(self.reach))

    @functools.cached_property
    def frobenius_norm_squared(self) -> float:
        """E ||A||_F^2, an exact sum over rows."""
        if self.window is not None:
            i = np.arange(1, min(self.window, self.n) + 1)
            shares = (1 + self._rows.row_variance(i)) / i
            return float(np.sum(shares) + (self.n - i.size) * shares[-1])  # later rows all see a whole window
        rows = np.unique(np.round(np.geomspace(1, self.n, 60)))
        types = chi_square_types(self.head_dim, 1000) if self.head_dim else ONE_TYPE
        squares = [biased_row_squares(self.beta**2 * r, self.slope or 1.0, rows) for r in types.values]
        mean = types.weights @ np.array(squares)
        last = int(np.append(rows[rows * (self.slope or 1.0) >= 45], self.n)[0])  # from here on all rows are alike
        logs = np.interp(np.log(np.arange(1, last + 1)), np.log(rows), np.log(mean))
        return float(np.sum(np.exp(logs)) + (self.n - last) * mean[-1])

    @functools.cached_property
    def mean_values(self) -> Array:
        """The largest singular values of the mean, at most 6: a few above 1, the ladder of the first tokens, then the plateau."""
        if self.window is not None:
            return window_singular_values(self.window, min(self.n, 6 * self.window), 6)
        r = math.exp(-(self.slope or 1.0))
        i = np.arange(
            1, min(self.n, math.ceil(200 / (self.slope or 1.0))) + 1
        )  # values above 1 sit at the first tokens
        return terraced_singular_values((1 - r) / (1 - r**i), 6, decay=r)

    def top_value(self, k: int) -> float:
        """The typical k-th largest singular value, k from 1 to 6.

        A value of the mean above 1 is rung k of a ladder of some length; noise at the first tokens lengthens it by
        `rmt.laws.causal.phase_shift`. Below, it is the larger of that and the k-th of the plateau with its noise.
        """
        mean = float(self.mean_values[k - 1])

        def excess(length: float) -> float:
            return float(ladder_values(length, k)[k - 1]) - mean

        length = optimize.brentq(excess, 1.01, 80.0) if mean > 1 and excess(1.01) < 0 else None
        rung = float(ladder_values(length + phase_shift(self.beta), k)[k - 1]) if length else 0.0
        return max(rung, float(self.plateau(k)[0]))

    def plateau(self, count: int) -> Array:
        """(m^2 + tau^2)/m for the values m of the band near 1."""
        theta = np.arange(1, count + 1) * math.pi / self.n
        m = window_symbol(self.window, theta) if self.window else bias_symbol(self.slope or 1.0, theta)
        return np.asarray((m**2 + self.noise) / m)

    @functools.cached_property
    def squares(self) -> Array:
        """Typical s^2 of all n values, descending: the rungs that stand above the band, then the quantiles of `law`."""
        rungs = [value for k in (1, 2, 3) if (value := self.top_value(k)) > 1.02 + self.noise]
        band = self.law.quantile(1 - (np.arange(1, self.n + 1) - 0.5) / self.n)
        rest = np.minimum(band, rungs[-1] * 0.98)[: self.n - len(rungs)]
        return np.square(np.concatenate([rungs, rest]))

    @property
    def noise(self) -> float:
        """tau^2: sigma_w^2/w, the variance of a row or a column."""
        return self.row_variance / self.reach

    @functools.cached_property
    def law(self) -> TabulatedLaw:
        """The law of all singular values of A but those of the first tokens, of order `reach` among n."""
        theta = (np.arange(_NODES) + 0.5) * math.pi / _NODES
        symbol = window_symbol(self.window, theta) if self.window else bias_symbol(self.slope or 1.0, theta)
        equation = BandEquation(symbol**2, self.noise)
        scale = math.sqrt(self.noise)
        x = np.concatenate(
            [
                np.linspace(1.6 + scale, 0.9, 40, endpoint=False),
                np.geomspace(0.9, 0.05 * scale, 90, endpoint=False),
                np.geomspace(0.05 * scale, 1e-4 * scale, 15),
            ]
        )
        below = 1 - count_above(equation, x)[::-1]
        cdf = np.clip(np.maximum.accumulate(below), 0.0, 1.0)
        return TabulatedLaw(x[::-1], np.append(cdf[:-1], 1.0))
