"""The Tracy-Widom laws: fluctuations of the largest eigenvalue of a random matrix at a square-root edge."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import ArrayLike

from rmt.laws.airy_determinant import Beta, airy_eigenvalues, log_cdf_of
from rmt.laws.hastings_mcleod import left_tail
from rmt.laws.inversion import sample_by_inversion
from rmt.laws.law import Array, interval, no_atoms

Convention = Literal["tracy-widom", "stochastic-airy", "determinant"]

_LEFT, _RIGHT, _DEGREE = -12.0, 24.0, 180  # the table; 160 already give log(-log F) to 3e-14
_SWITCH = -3.0  # left of it from Painleve II, right of it from the determinant: both are right to 2e-13 there
_UNIT = {"tracy-widom": 2**0.5, "stochastic-airy": 2 ** (2 / 3), "determinant": 1.0}


@dataclass(frozen=True)
class TracyWidom:
    """Limit law of (largest eigenvalue - centre) / scale for symmetric (beta = 1), Hermitian (2), self-dual (4) matrices.

    Centre and scale: `rmt.laws.edge_scaling`. cdf and density are right to about 1e-13; `log_cdf` and `log_survival` to
    1e-12 relative on [-12, 24] and by their asymptotic forms beyond, on the whole line. Fredholm determinants
    (Bornemann 2010) to the right of -3, the Hastings-McLeod function (Tracy and Widom 1994, 1996) to the left.

    convention: the unit of length, of consequence for beta = 4 only. F_D(s) = (F_1(s) + F_2(s)/F_1(s))/2 is the law in
    the unit "determinant" (mean -3.2624, Ferrari and Spohn). "tracy-widom" divides by sqrt 2 (mean -2.3069, variance
    .51772: the published tables); "stochastic-airy" divides by 2^(2/3) (mean -2.0552: minus the ground state of
    -d^2/dx^2 + x + (2/sqrt beta) noise, in which all beta share one scaling of the beta-ensembles).

    >>> round(float(TracyWidom(beta=1).quantile(0.95)), 4)
    0.9793
    """

    beta: Beta = 1
    convention: Convention = "tracy-widom"

    def __post_init__(self) -> None:
        if self.beta not in (1, 2, 4):
            raise ValueError(f"beta {self.beta}: must be 1, 2 or 4")
        if self.convention not in _UNIT:
            raise ValueError(f"convention {self.convention}: must be one of {', '.join(_UNIT)}")

    @property
    def support(self) -> Array:
        return interval(-np.inf, np.inf)

    @property
    def atoms(self) -> Array:
        return no_atoms()

    def density(self, x: ArrayLike) -> Array:
        log_minus_log, slope = self._double_log(x)
        # F' = -F exp(l) l' in logarithms, where l = log(-log F) falls
        return np.exp(log_minus_log - np.exp(log_minus_log)) * -slope

    def cdf(self, x: ArrayLike) -> Array:
        return np.exp(self.log_cdf(x))

    def survival(self, x: ArrayLike) -> Array:
        """P(X > x), with all its digits in the right tail."""
        return -np.expm1(self.log_cdf(x))

    def log_cdf(self, x: ArrayLike) -> Array:
        """log P(X <= x): about -beta |x|^3 / 24 far to the left."""
        return -np.exp(self._double_log(x)[0])

    def log_survival(self, x: ArrayLike) -> Array:
        """log P(X > x): about -(2/3) beta x^(3/2) far to the right (in the stochastic-airy unit)."""
        log_minus_log = self._double_log(x)[0]
        small = log_minus_log < -37
        return np.where(small, log_minus_log, np.log(-np.expm1(-np.exp(np.where(small, 0.0, log_minus_log)))))[()]

    def quantile(self, p: ArrayLike) -> Array:
        """The x with cdf(x) = p; -inf and inf at 0 and 1, NaN outside."""
        from scipy.optimize import elementwise  # here: it is slow to import

        p = np.asarray(p, dtype=float)
        inside = (p > 0) & (p < 1)
        with np.errstate(divide="ignore"):
            target = np.log(-np.log(np.where(inside, p, 0.5)))
        reach = np.full(p.shape, 250.0)  # exp(-1e6) and less
        root = elementwise.find_root(lambda x, t: self._double_log(x)[0] - t, (-reach, reach), args=(target,)).x
        return np.where(inside, root, np.where(p == 0, -np.inf, np.where(p == 1, np.inf, np.nan)))[()]

    def moment(self, k: int) -> float:
        """E X^k, by the trapezoidal rule on [-20, 24]: exponentially accurate, 1e-12 relative for k <= 8."""
        x = np.linspace(-20, 24, 881) / self._unit
        return float(np.sum(x**k * self.density(x)) * (x[1] - x[0]))

    @property
    def mean(self) -> float:
        return self.moment(1)

    @property
    def variance(self) -> float:
        return self._central(2)

    @property
    def skewness(self) -> float:
        return self._central(3) / self._central(2) ** 1.5

    @property
    def excess_kurtosis(self) -> float:
        return self._central(4) / self._central(2) ** 2 - 3

    def sample(self, rng: np.random.Generator, size: int | tuple[int, ...] = ()) -> Array:
        """Independent draws by inversion."""
        return sample_by_inversion(self, rng, size)

    @property
    def _unit(self) -> float:
        return _UNIT[self.convention] if self.beta == 4 else 1.0

    def _central(self, k: int) -> float:
        x = np.linspace(-20, 24, 881) / self._unit
        return float(np.sum((x - self.mean) ** k * self.density(x)) * (x[1] - x[0]))

    def _double_log(self, x: ArrayLike) -> tuple[Array, Array]:
        """log(-log F) at x and its derivative: a cubic's logarithm to the left, minus a 3/2 power to the right."""
        s = np.clip(np.asarray(x, dtype=float), -1e30, 1e30) * self._unit
        value, slope = _evaluate(self.beta, s)
        return value, slope * self._unit


@functools.cache
def _nodes() -> tuple[Array, Array]:
    """Chebyshev points on [-12, 24], and the eigenvalues of the Airy operator at those right of -3: the costly part."""
    s = (_LEFT + _RIGHT) / 2 - (_RIGHT - _LEFT) / 2 * np.cos(np.pi * np.arange(_DEGREE + 1) / _DEGREE)
    return s, airy_eigenvalues(s[s >= _SWITCH])


@functools.cache
def _table(beta: Beta) -> tuple[Array, Array]:
    """Chebyshev series of log(-log F) on [-12, 24] and of its derivative, made once: 0.2 s."""
    s, eigenvalues = _nodes()
    log_cdf = np.concatenate([_left(beta, s[s < _SWITCH]), log_cdf_of(beta, eigenvalues)])
    series = np.linalg.solve(chebyshev.chebvander(_to_unit(s), _DEGREE), np.log(-log_cdf))
    return series, chebyshev.chebder(series) * 2 / (_RIGHT - _LEFT)


def _to_unit(s: Array) -> Array:
    return (2 * s - _LEFT - _RIGHT) / (_RIGHT - _LEFT)


def _left(beta: Beta, s: Array) -> Array:
    one, two = left_tail().log_cdf(s)
    return {1: one, 2: two, 4: np.logaddexp(one, two - one) - np.log(2)}[beta]


def _evaluate(beta: Beta, s: Array) -> tuple[Array, Array]:
    series, derivative = _table(beta)
    unit = _to_unit(np.clip(s, _LEFT, _RIGHT))
    value, slope = chebyshev.chebval(unit, series), chebyshev.chebval(unit, derivative)
    if np.any(s > _RIGHT):
        # 1 - F ~ constant s^(-3c/4) exp(-2c/3 s^(3/2)), c = 1, 2, and 2 with s^-3 for the third
        c, power = {1: (1, 0.75), 2: (2, 1.5), 4: (2, 3.0)}[beta]
        t = np.maximum(s, _RIGHT)
        beyond = value - 2 * c / 3 * (t**1.5 - _RIGHT**1.5) - power * np.log(t / _RIGHT)
        value, slope = np.where(s > _RIGHT, beyond, value), np.where(s > _RIGHT, -c * np.sqrt(t) - power / t, slope)
    if np.any(s < _LEFT):
        t, step = np.minimum(s, _LEFT), 1e-4
        low, middle, high = (np.log(-_left(beta, t + shift)) for shift in (-step, 0.0, step))
        value = np.where(s < _LEFT, middle, value)
        slope = np.where(s < _LEFT, (high - low) / (2 * step), slope)
    return value[()], slope[()]
