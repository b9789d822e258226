"""Predictions for the tokens after one layer, X = A V with V = X_0 W, or (A - 11^T/n) V."""

from __future__ import annotations

import math

from rmt.laws.hermite import TW1_MEAN
from rmt.theorems.layer import Layer
from rmt.theorems.prediction import Approximation, Prediction, absolute_band, out_of_range, relative_band

SOURCE = "nait-saada2024; derived, see rmt.theorems.rank_collapse"
_NAMES = ("token_stable_rank", "gram_stable_rank", "token_cosine", "rank_one_residual")
VALIDITY = "n >= 200, beta <= 1, widths >= 32"
_DROWNED = 5.0  # sum of n/width from which the noise of narrow values drowns an entry outside the bulk of A


def token_predictions(
    layer: Layer, *, removed: bool, orthonormal: bool, width: int, value_width: int, heads: int = 1, kv_heads: int = 1
) -> dict[str, Prediction]:
    """What to expect of X, by quantity; W (width x value_width) Gaussian, X_0 orthonormal rows or Gaussian.

    heads: that stand side by side, value_width columns in all; kv_heads: heads of keys and values, which groups share.

    Kept (derived). X = u a^T + B V, u = 1/sqrt(n), a = V^T A^T u, B = (I - J) A. |a|^2 is |A^T u|^2 times chi^2 of
    value_width degrees (orthonormal: V is iid) or times a product of two chi^2 (Gaussian tokens: also of width degrees),
    and B V adds sigma^2 (1/d_v [+ 1/d]) to s_1^2/|a|^2. The bulk has sum s^4 = E s^4/n + sigma^4 (1/d_v [+ 1/d]) in the
    same units, so with inverse moments of the chi^2
        gram stable rank - 1 = [E s^4/n + sigma^4 (1/d_v [+ 1/d])] prod d^2/((d - 2)(d - 4)) / s_1^4.
    Removed: every Gaussian factor multiplies z^2 of the all-degrees law by 1 + (n/m) g R(g); the end of that spectrum,
    moved by the mean of Tracy-Widom, is s_1^2, and sum s^4/n = E s^4 + sigma^4 (n/d_v [+ n/d]).
    An entry outside the bulk of A (iid logits, beta above about .6) keeps the end in its place, without the Tracy-Widom shift,
    until n/d_v [+ n/d] passes 5. Measured over predicted there, n = 300 and 600, beta .7, .84, 24 to 48 draws (errors .01, .02):
    widths 32 and 64 token rank 1.00 to 1.02, Gram 1.01 to 1.06 (1.08 to 1.13, 1.17 to 1.29 were it kept); n 1.00-1.03, 1.00-1.06.
    Its effective rank is exp of the entropy -E x ln x (`HermiteLaw.log_moment`); the spread of row and column scales
    counts there as one more factor, of the ratio that the fourth moment asks for. (Kept, the length of the one outlier
    sets the effective rank: it scatters by a tenth from draw to draw and is not predicted.)
    The mean cosine that is left is that of the shared column effect, over sigma^2: zero for iid logits.
    Several heads (derived). Given the keys, rows of different heads are independent of mean zero but for u a^T: their noise
    adds like that of independent heads, whether or not they share keys and values. So the Gram excess has
        [E s^4 + (h - 1) sigma^4]/(h n) + sigma^4 (1/d_v [+ 1/(h d)])
    in the bracket, and sharing alone makes the mean token repeat: |a|^2 has the scatter of d_v kv_heads/h columns. The one
    outlier of removed heads side by side is not predicted; their cosine and residual are those of one head.

    Measured over predicted, n = 256, 512, 1024, beta 0.3, 0.5, 0.83, d_k 64, 128 and iid: excess 0.94 to 1.05 (sd of one
    draw 0.07 to 0.29), kept token stable rank 0.986 to 1.013, removed Gram stable rank 0.94 to 1.05, token 0.96 to 1.03,
    kept cosine within 2 %, effective rank 0.98 to 1.01; these draws also calibrated it. At n = 4096, width 1024
    (10 draws, beta 0.83, iid and d_k 64): excess 0.95 to 1.00, removed Gram 0.99 to 1.01, effective rank 0.98 to 1.00.
    Heads / kv_heads 4/1, 4/2, 8/8, 8/2, 8/1, n = 256 to 2048, widths 128 to 1024, 32 to 512 different columns, beta 0.4 to 0.83,
    d_k 64 and iid (4 to 64 draws): token stable rank 0.98 to 1.00 (errors 0.006 to 0.03), excess 0.92 to 1.02 (0.04 to 0.12),
    cosine 0.99 to 1.01, residual 0.99 to 1.01, removed cosine 0.96(3).
    Bands: 15 % (excess), 10 % (removed Gram), 5 % (the rest; for a removed cosine plus a quarter of 1/n).
    """
    names = (*_NAMES, "effective_rank" if removed else "gram_stable_rank_excess")
    if layer.uniform:
        return {}
    reason = layer.limits() or _too_heavy(layer, removed)
    columns = value_width * kv_heads // heads  # that differ
    widths = (columns,) if orthonormal else (columns, width)
    if reason is None and min(widths) < 32:
        reason = f"width {min(widths)}: calibrated for widths from 32 on"
    if reason:
        return {name: out_of_range(reason, source=SOURCE) for name in names}
    if removed:
        found = _removed(layer, widths)
        return found if heads == 1 else {name: found[name] for name in ("token_cosine", "rank_one_residual")}
    return _kept(layer, widths, heads, value_width)


def _kept(layer: Layer, widths: tuple[int, ...], heads: int, value_width: int) -> dict[str, Prediction]:
    variance, loss = layer.variance, sum(1 / width for width in (value_width, *widths[1:]))
    lengthening = math.prod(1 - 2 / width for width in widths)
    shortening = math.prod(width**2 / ((width - 2) * (width - 4)) for width in widths)
    top = layer.mean_row_squared + variance * loss
    stable = 1 + variance * (1 - 1 / value_width) / (layer.mean_row_squared * lengthening + variance * loss)
    fourth = (layer.fourth_moment + (heads - 1) * variance**2) / (heads * layer.n)
    spread = 1 / value_width + sum(1 / (heads * width) for width in widths[1:])
    excess = (fourth + variance**2 * spread) * shortening / top**2
    # The cosine of rows i, j is 1/sqrt((1 + sigma_i^2)(1 + sigma_j^2)), plus the shared column effect.
    inverse = layer.over_rows(lambda v: (1 + layer.row_variance(v)) ** -0.5)
    cosine = inverse**2 + layer.column_effect / (1 + variance)
    apart = math.sqrt((1 + variance - layer.mean_row_squared) / (1 + variance))
    return {
        "token_stable_rank": _about(stable, 0.05),
        "gram_stable_rank": _about(1 + excess, 0.15 * excess / (1 + excess)),
        "gram_stable_rank_excess": _about(excess, 0.15),
        "token_cosine": _about(cosine, 0.05),
        "rank_one_residual": _about(apart, 0.05),
    }


def _removed(layer: Layer, widths: tuple[int, ...]) -> dict[str, Prediction]:
    factors = [layer.n / width for width in widths]
    alone = layer.law.edge(entry=layer.largest_entry)
    edge = layer.law.edge(factors=factors, entry=layer.largest_entry)
    held = alone.detached and sum(factors) <= _DROWNED
    square = edge.square if held else edge.shifted(TW1_MEAN)
    stable = layer.n * layer.variance / square
    gram = layer.n * (layer.fourth_moment + layer.variance**2 * sum(factors)) / square**2
    total = layer.variance
    apart = math.sqrt((1 + total - layer.mean_row_squared) / total)
    cosine = layer.column_effect / layer.variance
    band = absolute_band(cosine, 0.05 * cosine + 0.25 / layer.n)
    return {
        "token_stable_rank": _about(stable, 0.05),
        "gram_stable_rank": _about(gram, 0.10),
        "effective_rank": _about(_bulk_rank(layer, factors), 0.05),
        "token_cosine": Approximation(value=cosine, band=band, source=SOURCE, validity=VALIDITY),
        "rank_one_residual": _about(apart, 0.01),
    }


def _bulk_rank(layer: Layer, factors: list[float]) -> float:
    spread = max(layer.fourth_moment - layer.law.fourth_moment, 0.0) / layer.variance**2
    spread = min(spread, 1.0)
    return layer.n * math.exp(-layer.law.log_moment(factors=[*factors, *([spread] if spread > 0 else [])]))


def _too_heavy(layer: Layer, removed: bool) -> str | None:
    if removed and layer.heavy > 0.9 and layer.head_dim is None:
        return f"beta = {layer.beta:g}: above 0.9 single entries of iid weights carry the rank of the repaired tokens"
    if removed and layer.beta > 0.4 and layer.head_dim is not None and layer.head_dim < 32:
        return f"head_dim = {layer.head_dim}: repaired tokens are calibrated for head_dim >= 32 at beta above 0.4"
    return None


def _about(value: float, width: float) -> Prediction:
    band = relative_band(value, width)
    return Approximation(value=value, band=band, source=SOURCE, validity=VALIDITY)
