"""Causal softmax attention: the law of its singular values, ladder and bulk together."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import PchipInterpolator

from rmt.laws.averages import ladder_values, rungs_above
from rmt.laws.causal_equations import CausalEquations, Noise
from rmt.laws.counting import count_above
from rmt.laws.delegated import DelegatedLaw
from rmt.laws.harmonics import monomials
from rmt.laws.law import Array
from rmt.laws.lognormal_softmax import effective_variance, row_square_variance
from rmt.laws.tabulated import TabulatedLaw
from rmt.laws.types import ONE_TYPE, Types, chi_square_types

_DEGREES = 4
_BULK_GROWTH = 1.1  # of the blocks, where all values are wanted
_STEPS = 6  # rungs whose steps the grid resolves
_LEAST = 0.2  # where the grid for the leading values ends


@dataclass(frozen=True)
class CausalLaw(DelegatedLaw):
    """Singular values s of causal attention A over n tokens, or of A - C where not `mean` (C the uniform causal mean).

    beta: standard deviation of the logits; head_dim: d_k of key-query logits, None for iid ones. Row i of A is a softmax
    over i logits; E A = C exactly, and entry variances are sigma_i^2/i^2.

    Derivation (heuristic, no proof): see `rmt.laws.causal_equations`, information plus noise with a variance profile.
    The k-th largest value is where the expected number above reaches k - 1/2: a median, not a limit, because the first
    rows never average out (sd of s_1: 0.04, of s_1(A - C): 0.1 at beta = 1).

    Range: beta <= 1, n >= 64, head_dim >= 16 (`validity`); the bulk of key-query logits from head_dim = 32 on. Cost 0.2 s
    (iid) to 1 s (key-query) for the leading values, n from 64 to 10^6, and a few seconds for the first use of the whole law.
    Blocks against single tokens: 0.5 % in the top eight.

    Moments of the table, n = 200 to 10^5, beta .1 to 1. iid, over exact ones: E s^2 -0.2 to 0.2 %, E s^4 -0.4 to 0.3 %; of A - C
    E s^2 0.03 %, E s^4 0.3 %. Key-query over 100-4000 matrices, n = 200, 1000, d_k = 16, 32, 64: E s^2 0.0 to 0.4 %, E s^4
    -0.3 to 0.9 % (errors .1 to .9); of A - C E s^2 0.1 to 0.3 % (d_k = 16: .5 to 1.3), but E s^4 4 % (64), 8 % (32), 13-15 %
    (16) high, in its first rows.

    Kolmogorov distance of whole spectra, 3 draws at n = 1000: iid, beta = 1: .013, .5: .008, .3: .008; d_k = 128, .8: .013;
    64, .3: .014, .5: .014, .8: .019, 1: .021; 32, .5: .026, 1: .032; 16, .5: .04, 1: .05.
    """

    n: int
    beta: float
    head_dim: int | None = None
    mean: bool = True

    def __post_init__(self) -> None:
        if not (self.n >= 2 and 0 < self.beta <= 6 and (self.head_dim is None or self.head_dim >= 2)):
            raise ValueError(
                f"n = {self.n}, beta = {self.beta}, head_dim = {self.head_dim}: needs n >= 2, 0 < beta <= 6, head_dim >= 2"
            )

    @property
    def validity(self) -> str:
        """Why the law should not be trusted here, or an empty string."""
        limits = [
            (self.beta > 1, f"beta = {self.beta:g} > 1: entries of the first rows do not average"),
            (self.n < 64, f"n = {self.n} < 64: too few rows"),
            (self.head_dim is not None and self.head_dim < 16, f"head_dim = {self.head_dim} < 16: few features"),
        ]
        return "; ".join(text for broken, text in limits if broken)

    @property
    def in_range(self) -> bool:
        """Whether the stated accuracy was measured for such sizes."""
        return not self.validity

    def row_variance(self, i: ArrayLike) -> Array:
        """sigma_i^2 = i E sum_j A_ij^2 - 1 of row i, exact for both kinds of logits (the keys are iid given the query)."""
        i = np.asarray(i, float)
        return np.where(i > 1, self._variance_of_log(np.log(i)), 0.0)

    @functools.cached_property
    def _variance_of_log(self) -> PchipInterpolator:
        count = np.unique(np.round(np.geomspace(1, max(self.n, 3), 300)))
        if self.head_dim is None:
            value = effective_variance(self.beta**2, count)
        else:
            types = chi_square_types(self.head_dim, 2000)
            value = types.weights @ effective_variance(self.beta**2 * types.values[:, None], count)
        return PchipInterpolator(np.log(count), value)

    @functools.cached_property
    def frobenius_norm_squared(self) -> float:
        """E ||A||_F^2 = sum_i (1 + sigma_i^2)/i, or without the mean sum_i sigma_i^2/i; exact up to interpolation (1e-6)."""
        i = np.arange(1, self.n + 1)
        return float(np.sum((float(self.mean) + self.row_variance(i)) / i))

    @functools.cached_property
    def equations(self) -> CausalEquations:
        """The equations behind the law, on blocks as large as the leading values allow."""
        return CausalEquations(self.n, self.noise, mean=self.mean)

    @property
    def noise(self) -> Noise:
        """The fluctuation of the rows around their mean, for the equations."""
        if self.head_dim is None:
            return Noise(self.row_variance, spread=self._row_spread(ONE_TYPE))
        total = math.expm1(self.beta**2)
        ranks = [monomials(degree, self.head_dim) for degree in range(1, _DEGREES + 1)]
        kept = [degree for degree, rank in enumerate(ranks, 1) if rank < 3 * self.n]
        shares = tuple(self.beta ** (2 * degree) / math.factorial(degree) / total for degree in kept)
        norms = chi_square_types(self.head_dim, self.n)
        factors = np.expm1(self.beta**2 * norms.values)
        types = Types(factors / norms.mean(factors), norms.weights)
        kept_ranks = tuple(ranks[degree - 1] for degree in kept)
        return Noise(self.row_variance, shares, kept_ranks, types, self._row_spread(types))

    def _row_spread(self, types: Types) -> PchipInterpolator:
        """v_i, the relative variance of |A_i|^2 - 1/i beyond that of types and the 1/(i - 1) that the equations count (tr K_i^2).

        (1 + v_types)(1 + v_i) + 1/(i - 1) is the relative mean square, exact as the keys are iid given the query.
        """
        i = np.unique(np.concatenate([np.arange(1, 20), np.round(np.geomspace(20, max(self.n, 21), 40))]))
        norms = ONE_TYPE if self.head_dim is None else chi_square_types(self.head_dim, 2000)
        v = self.beta**2 * norms.values[:, None]
        square = norms.weights @ (row_square_variance(v, i) + effective_variance(v, i) ** 2)
        relative = square / np.maximum(self.row_variance(i), 1e-100) ** 2 - 1 / np.maximum(i - 1, 1)
        spread = np.where(i > 1, relative / types.mean(types.values**2) - 1, 0.0)
        return PchipInterpolator(i, np.clip(spread, 0.0, 1.0))

    @functools.cached_property
    def _leading(self) -> tuple[Array, Array]:
        """Descending values, and the expected number of singular values above each."""
        if self.mean:  # the count rises in steps at the rungs, which the lengthened ladder places to a percent
            rungs = ladder_values(math.log(self.n) + phase_shift(self.beta), _STEPS)
            width = 0.04 * self.beta * np.arange(1, _STEPS + 1)  # of a step, relative
            steps = (rungs * (1 + np.outer([1, 0.5, 0, -0.5, -1], width))).ravel()
            between = [1.08 * rungs[0], *np.sqrt(rungs[1:] * rungs[:-1])]
            least = min(_LEAST, 0.7 * self.beta)
            deep = 18 + math.ceil(16 * math.log(_LEAST / least))
            x = np.unique(np.concatenate([steps, between, np.geomspace(1.04 * rungs[-1], least, deep)]))[::-1]
        else:
            x = np.geomspace(1.4 * self.beta, 0.1 * self.beta, 32)
        return x, np.maximum.accumulate(count_above(self.equations, x))

    @functools.cached_property
    def law(self) -> TabulatedLaw:
        """The whole law, bulk and ladder, on finer blocks and 80-90 points; tiny values pile up at zero like 1/log."""
        bulk = math.sqrt(self.frobenius_norm_squared / self.n)
        top = self._leading[0]
        keyed = self.head_dim is not None
        x = np.concatenate(
            [
                [1.15 * top[0]],
                top,
                np.geomspace(top[-1], 0.02 * bulk, 33)[1:],
                np.geomspace(0.02 * bulk, (2e-3 if keyed else 1e-6) * bulk, 6 if keyed else 15)[1:],
            ]
        )
        equations = CausalEquations(self.n, self.noise, mean=self.mean, growth=_BULK_GROWTH)
        below = 1 - count_above(equations, x, tolerance=1e-4)[::-1] / self.n
        cdf = np.clip(np.maximum.accumulate(below), 0.0, 1.0)
        return TabulatedLaw(x[::-1], np.append(cdf[:-1], 1.0))

    def moment(self, k: int) -> float:
        """E s^k; k = 2 exactly, k = 4 exactly for iid logits, others from the table."""
        if k == 2:
            return self.frobenius_norm_squared / self.n
        if k == 4 and self.head_dim is None:
            return self._fourth_moment
        return self.law.moment(k)

    @property
    def _fourth_moment(self) -> float:
        """E tr (A A^T)^2/n for iid logits: pairs of rows, tr S_i S_i', and E |A_i|^4 = (tr S_i)^2 + Var |A_i|^2.

        S_i = m_i m_i^T + K_i; for i < i' the projections nest: tr S_i S_i' = 1/i'^2 + c_i' (1/i - 1/i') + c_i c_i' (i - 1), the
        last alone for A - C. The equations count tr K_i^2 for Var |A_i|^2, and `_row_spread` the rest.
        """
        i = np.arange(1, self.n + 1, dtype=float)
        variance, present = self.row_variance(i), float(self.mean)
        c = variance / (i * np.maximum(i - 1, 1))
        before = np.concatenate([[0.0], np.cumsum(1 / i)[:-1]])  # sums over rows above
        noise = np.concatenate([[0.0], np.cumsum(c * (i - 1))[:-1]])
        pairs = present * ((i - 1) / i**2 + c * (before - (i - 1) / i)) + c * noise
        knots = np.unique(np.round(np.geomspace(1, max(self.n, 3), 100)))
        spread = PchipInterpolator(np.log(knots), row_square_variance(self.beta**2, knots))(np.log(i)) / i**2
        return float(np.sum(((present + variance) / i) ** 2 + spread) + 2 * np.sum(pairs)) / self.n

    def top_value(self, k: ArrayLike) -> Array:
        """The typical k-th largest singular value, k = 1, 2, ...; NaN below 0.2 or 0.7 beta (0.1 beta without mean)."""
        x, above = self._leading
        return np.interp(np.asarray(k, float) - 0.5, above, x, left=np.nan, right=np.nan)

    def count_above(self, value: float) -> float:
        """The expected number of singular values above one value of at least 0.2 or 0.7 beta (0.1 beta without the mean)."""
        x, above = self._leading
        return float(np.interp(-math.log(value), -np.log(x), above))


def phase_shift(beta: float) -> float:
    """By how much noise lengthens the ladder, ln n -> ln n + delta: .75 beta^2 + .25 beta^4, for any n (fitted, beta <= 1).

    In x = ln i the mean part is translation invariant and the noise, sigma^2/i, lives at the origin: it can only change
    the phase with which the first tokens reflect. Fitted to `CausalLaw`, first two rungs.
    """
    return 0.75 * beta**2 + 0.25 * beta**4


def expected_outliers(n: int, beta: float, noise_top: float) -> float:
    """How many singular values of A lie above `noise_top`, the largest of A - C (about (w/pi) ln n; derived, 3/4 fitted).

    The rungs of the lengthened ladder above it; noise lifts the last rungs by three quarters of a step (24 settings).
    """
    return rungs_above(noise_top, math.log(n) + phase_shift(beta)) + 0.75
