"""One outlier over a bulk: every prediction for a matrix that is its mean plus noise, from a few numbers about it."""

from __future__ import annotations

import dataclasses
import math

from rmt.theorems.prediction import (
    Approximation,
    Prediction,
    Predictions,
    Statistic,
    absolute_band,
    relative_band,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Errors:
    """Half-widths of the bands, relative: of the noise variance, of s_1^2 - level^2, of a value of the bulk, of ratios of two
    bulk values, and of the level itself."""

    variance: float
    top: float
    bulk: float
    ratio: float = 0.05
    level: float = 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class OutlierAndBulk:
    """A = level (11^T/n + noise), noise of variance `variance`/n^2 an entry, whose rows sum to zero where `centred`.

    effect: what columns of different means add to s_1^2/level^2 (a rank-one effect on the mean row, gone in no repair).
    bulk: the largest singular values of A - level 11^T/n, descending; empty `level` (0) for a matrix without a mean.
    """

    n: int
    variance: float
    bulk: tuple[float, ...]
    errors: Errors
    source: str
    validity: str
    level: float = 1.0
    effect: float = 0.0
    centred: bool = True

    @property
    def top_squared(self) -> float:
        """s_1^2 = level^2 |mean row|^2 (1 + noise): the noise adds variance/n once per side on which it is not centred."""
        share = self.variance / self.n
        row = share + self.effect
        rest = row * share if self.centred else share
        return self.level**2 * (1 + row + rest)

    def kept(self) -> Predictions:
        """Of A."""
        top = math.sqrt(self.top_squared)
        slack = self.errors.top * (self.top_squared - self.level**2) / (2 * top) + self.errors.level * self.level
        squared = self.level**2 * (1 + self.variance)
        noise = self.errors.variance * self.level**2 * self.variance + 2 * self.errors.level * self.level**2
        first = self._about(top, absolute_band(top, slack), "mean")
        values = {1: first} | {rank: self._value(value) for rank, value in enumerate(self.bulk[:-1], 2)}
        gap, stable = top - self.bulk[0], squared / self.top_squared
        return {
            "frobenius_norm_squared": self._about(squared, absolute_band(squared, noise), "mean"),
            "top_singular_value": first,
            "second_singular_value": values[2],
            "singular_value": values,
            "spectral_gap": self._about(gap, absolute_band(gap, self.errors.bulk * self.bulk[0] + slack)),
            "gap_ratio": self._about(self.bulk[0] / top, relative_band(self.bulk[0] / top, self.errors.bulk)),
            "attention_stable_rank": self._about(stable, absolute_band(stable, noise / self.top_squared), "mean"),
        }

    def removed(self) -> Predictions:
        """Of A - level 11^T/n, or of A itself where the level is zero."""
        values = {rank: self._value(value) for rank, value in enumerate(self.bulk, 1)}
        scale = self.level**2 if self.level else 1.0
        squared, ratio = scale * self.variance, self.bulk[1] / self.bulk[0]
        stable = squared / self.bulk[0] ** 2
        return {
            "frobenius_norm_squared": self._about(squared, relative_band(squared, self.errors.variance), "mean"),
            "top_singular_value": values[1],
            "second_singular_value": values[2],
            "singular_value": values,
            "gap_ratio": self._about(ratio, relative_band(ratio, self.errors.ratio)),
            "attention_stable_rank": self._about(stable, relative_band(stable, 2 * self.errors.bulk)),
        }

    def tokens(self, widths: tuple[int, ...]) -> Predictions:
        """Of A V, V independent of A: a product of Gaussian factors of these widths, the value width first.

        As in `rmt.theorems.rank_collapse`: the mean row picks one token of squared length chi^2 a width, the noise adds
        variance (1/d_v [+ 1/d]) to s_1^2; two rows share the mean row, of their 1 + variance. Bands 5 %.
        """
        if min(widths) < 32 or self.level == 0:
            return {}
        loss, lengthening = sum(1 / d for d in widths), math.prod(1 - 2 / d for d in widths)
        row = 1 + self.effect + (0 if self.centred else self.variance / self.n)
        stable = 1 + self.variance * (1 - 1 / widths[0]) / (row * lengthening + self.variance * loss)
        cosine = (1 + self.effect) / (1 + self.variance)
        apart = math.sqrt(max(self.variance - self.variance / self.n - self.effect, 0.0) / (1 + self.variance))
        values = {"token_stable_rank": stable, "token_cosine": cosine, "rank_one_residual": apart}
        return {name: self._about(value, relative_band(value, 0.05), "mean") for name, value in values.items()}

    def _value(self, value: float) -> Prediction:
        return self._about(value, relative_band(value, self.errors.bulk))

    def _about(self, value: float, band: tuple[float, float], statistic: Statistic = "median") -> Prediction:
        return Approximation(value=value, band=band, statistic=statistic, source=self.source, validity=self.validity)
