"""The first-order effect of heavy-tailed entries, written as random multipliers on rows and columns.

Entries of attention are nearly lognormal: the sum of squares of a row fluctuates with relative variance kappa/n. To first
order in kappa/n the spectrum of a matrix with excess fourth moment kappa is that of a Gaussian matrix whose rows and
columns carry independent multipliers of variance kappa/(2n) each (derived: the tree expansion counts kappa once, a
multiplier of the full variance on rows and on columns would count it twice). The expansion needs a cap: without one
the Kolmogorov distance grows to 0.03-0.08 for n < 500 or beta >= 1.25; caps between 0.05 and 0.15 agree.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from rmt.laws.law import Array
from rmt.laws.lognormal_softmax import softmax_moment
from rmt.laws.pieces import Pieces
from rmt.laws.types import STRATA, gamma_multipliers

CAP = 0.08


def excess_kurtosis(log_variance: ArrayLike, n: float, tilt: ArrayLike = 1.0) -> Array:
    """kappa(v) of the part of a softmax entry that is not linear in its logit, v the logit variance, v > 0.

    kappa = M4 (E R^4/E F^4)/(E R^2)^2 - 1 with F lognormal of mean one, R = F - 1 - sqrt(v) x and M4 = E (n A)^4, which
    knows the normaliser. `tilt` multiplies M4 (tokens on a sphere have lighter tails than Gaussian ones).
    """
    v = np.atleast_1d(np.asarray(log_variance, float))
    x = np.arange(-12.0, 12.0 + 4 * np.sqrt(v.max()), 0.01)
    log_weight = -x * x / 2 + np.log(0.01 / np.sqrt(2 * np.pi))
    scaled = np.sqrt(v)[:, None] * x
    with np.errstate(divide="ignore"):
        log_rest = np.log(np.abs(np.expm1(scaled - v[:, None] / 2) - scaled))  # its powers leave the range of a double
    second, fourth = (special.logsumexp(power * log_rest + log_weight, axis=1) for power in (2, 4))
    return softmax_moment(v, n, 4) * tilt * np.exp(fourth - 2 * second - 6 * v) - 1


def with_heavy_entries(pieces: Pieces, row_kappa: Array, column_kappa: Array, *, n: float, linear: int = 1) -> Pieces:
    """The pieces with multipliers of variance kappa/(2n) on rows and columns of every piece but the first `linear`.

    row_kappa (R,) and column_kappa (C,) belong to the types; each type is split into the four strata of a Gamma law.
    """
    count = len(pieces.ranks)
    affected = (np.arange(count) >= linear)[:, None, None]

    def split(profiles: Array, kappa: Array) -> Array:
        multipliers = gamma_multipliers(np.clip(kappa / (2 * n), 0.0, CAP))
        return (profiles[:, :, None] * np.where(affected, multipliers, 1.0)).reshape(count, -1)

    return Pieces(
        split(pieces.row_profiles, row_kappa),
        split(pieces.column_profiles, column_kappa),
        pieces.ranks,
        np.outer(pieces.row_weights, STRATA).ravel(),
        np.outer(pieces.column_weights, STRATA).ravel(),
    )
