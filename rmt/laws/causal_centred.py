"""Causal attention without its uniform part, A - 11^T/n, and with centred columns, (I - 11^T/n) A: most of the ladder stays."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rmt.laws.causal import CausalLaw, phase_shift
from rmt.laws.causal_equations import CausalEquations
from rmt.laws.counting import count_above
from rmt.laws.law import Array

_STEPS = 6  # rungs whose steps the grid resolves
_LEAST = 0.2  # where the grid ends


@dataclass(frozen=True)
class CentredCausalLaw:
    """Leading singular values of A - J ("keys") or (I - J) A ("queries"), J = 11^T/n, A causal attention over n tokens.

    beta: standard deviation of the logits; head_dim: d_k of key-query logits, None for iid ones.

    As A 1 = 1, A - J = A (I - J): its mean is C (I - J) and its noise A - C that of A, whose rows sum to zero already
    (exact). J was never the mean of A: removing it costs one degree of freedom, not an outlier. In ln i, where C
    averages, vectors orthogonal to 1 have running sums that end at zero: the k-th rung is 2 (1 + 4 w^2)^(-1/2) at
    w ln n + phi(w) = k pi, phi the phase of the first tokens, where the rungs of C have k pi - arctan(2 w) (derived). So
    s_1(A - J) tends to 2 as well. For (I - J) A the mean is (I - J) C; that the noise is centred too, an energy of
    sum sigma_i^2/(n i), is left out for the singular values (derived, an approximation).

    Both are the equations of `rmt.laws.causal_equations` with that mean. Measured: `rmt.theorems.causal_centred`.
    """

    n: int
    beta: float
    head_dim: int | None
    centred: str

    def __post_init__(self) -> None:
        if self.centred not in ("keys", "queries"):
            raise ValueError(f"centred {self.centred}: must be keys or queries")

    @functools.cached_property
    def plain(self) -> CausalLaw:
        """The law of A. Raises ValueError for sizes that have none."""
        return CausalLaw(self.n, self.beta, self.head_dim)

    @property
    def validity(self) -> str:
        """Why the law should not be trusted here, or an empty string."""
        return self.plain.validity

    @functools.cached_property
    def frobenius_norm_squared(self) -> float:
        """E ||A - J||_F^2 = E ||A||_F^2 - 1, exact; of (I - J) A E ||A||_F^2 - |C^T u|^2 - sum_i sigma_i^2/(n i), u = 1/sqrt(n).

        The latter is exact for iid logits; with keys the mean row has their norms in common, a few tenths of a percent more.
        """
        total = self.plain.frobenius_norm_squared
        if self.centred == "keys":
            return total - 1
        i = np.arange(1, self.n + 1)
        columns = np.cumsum((1 / i)[::-1])
        return total - float(columns @ columns + np.sum(self.plain.row_variance(i) / i)) / self.n

    @functools.cached_property
    def _leading(self) -> tuple[Array, Array]:
        """Descending values, and the expected number of singular values above each."""
        equations = CausalEquations(self.n, self.plain.noise, centred=self.centred)
        mean = np.linalg.svd(equations.mean, compute_uv=False)[:_STEPS]
        # the noise lengthens the ladder of the mean as it does that of A; the count rises in steps at its rungs
        longer = math.log(self.n) / (math.log(self.n) + phase_shift(self.beta))
        rungs = (0.25 + longer**2 * np.maximum(mean**-2 - 0.25, 0.0)) ** -0.5
        width = 0.04 * self.beta * np.arange(1, rungs.size + 1)
        steps = (rungs * (1 + np.outer([1, 0.5, 0, -0.5, -1], width))).ravel()
        between = [1.08 * rungs[0], *np.sqrt(rungs[1:] * rungs[:-1])]
        least = min(_LEAST, 0.7 * self.beta)
        deep = 18 + math.ceil(16 * math.log(_LEAST / least))
        x = np.unique(np.concatenate([steps, between, np.geomspace(1.04 * rungs[-1], least, deep)]))[::-1]
        return x, np.maximum.accumulate(count_above(equations, x))

    def top_value(self, k: ArrayLike) -> Array:
        """The typical k-th largest singular value, k = 1, 2, ...; NaN below 0.2 or 0.7 beta."""
        x, above = self._leading
        return np.interp(np.asarray(k, float) - 0.5, above, x, left=np.nan, right=np.nan)
