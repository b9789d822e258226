"""Predictions for attention with QK-norm: queries and keys on a sphere, and so no spread of rows or columns."""

from __future__ import annotations

import functools
import math

import numpy as np

from rmt.laws.normalised_heads import qk_norm_law
from rmt.laws.piece_law import PieceLaw
from rmt.theorems.outlier_and_bulk import Errors, OutlierAndBulk, Predictions
from rmt.theorems.prediction import MOST_RANKS, values_out_of_range

SOURCE = "derived, see rmt.laws.normalised_heads"
VALIDITY = "n >= 300, beta <= 1, head_dim >= 8"
NAMES = ("frobenius_norm_squared", "top_singular_value", "second_singular_value", "gap_ratio", "attention_stable_rank")


def qk_norm_predictions(
    n: int, beta: float, *, head_dim: int, removed: bool, widths: tuple[int, ...] = ()
) -> Predictions:
    """What to expect of A, or of A - 11^T/n where `removed`; queries and keys uniform on the sphere of radius sqrt(d_k).

    s_1^2 = 1 + sigma_n^2/n: keys of one length have no column effect. Bulk: the top of `qk_norm_law`; as n grows the values
    tend to the ratios of Bessel functions `rmt.laws.normalised_heads.funk_hecke_values`.
    widths: of independent value tokens, for those after A. Bands: sigma_n^2 3 %, s_1^2 - 1 10 %, values of the bulk 3 %.
    """
    limits = (
        (n < 300, f"n = {n}: calibrated for n >= 300"),
        (beta > 1, f"beta = {beta:g}: calibrated for beta <= 1 with QK-norm"),
        (head_dim < 8, f"head_dim = {head_dim}: calibrated for head_dim >= 8"),
    )
    reason = next((text for broken, text in limits if broken), "")
    if reason:
        names = (*NAMES, "spectral_gap") if not removed else NAMES
        return values_out_of_range(names, reason, source=SOURCE)
    law = _law(n, head_dim, float(beta))
    model = OutlierAndBulk(
        n=n,
        variance=law.pieces.second_moment,
        bulk=tuple(float(value) / math.sqrt(n) for value in law.top_value(np.arange(1, MOST_RANKS + 1))),
        errors=Errors(variance=0.03, top=0.10, bulk=0.03),
        source=SOURCE,
        validity=VALIDITY,
    )
    return model.removed() if removed else model.kept() | (model.tokens(widths) if widths else {})


@functools.lru_cache(maxsize=64)
def _law(n: int, head_dim: int, beta: float) -> PieceLaw:
    return qk_norm_law(n, head_dim, beta)
