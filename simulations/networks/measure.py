"""Rank, cosine and residual of the tokens after every layer of a network."""

from __future__ import annotations

import math
from typing import Any

from rmt.experiments.experiment import Bench, Cost
from simulations.networks.setting import NetworkSetting, network_of

SMALLEST_EXCESS = 1e-300  # below this the excess is unknown; its logarithm goes on
BF16_LEVEL = 2.0**-8  # the spacing of bfloat16 below one: tokens this close are the same number
BY_LAYER = (
    "gram_stable_rank",
    "gram_stable_rank_excess",
    "log_gram_stable_rank_excess",
    "token_stable_rank",
    "effective_rank",
    "token_cosine",
    "quarter_cosine",
    "rank_one_residual",
)
OF_ATTENTION = ("attention_entropy", "gap_ratio", "outlier_count")  # with --spectrum full


def along_depth(setting: NetworkSetting, draws: range, stream: Any, bench: Bench) -> dict[str, Any]:
    """Observables (draws, depth) of the tokens after each layer, and the layer at which bfloat16 sees one token."""
    import numpy as np

    network = network_of(setting, bench)
    names = BY_LAYER + (OF_ATTENTION if bench.spectrum == "full" else ())
    found = {name: np.full((len(draws), setting.depth), math.nan) for name in names}
    collapsed = np.full(len(draws), math.nan)
    for row, draw in enumerate(draws):
        before = network.start(stream, draw)
        for number, X in enumerate(tokens_along(network, setting, stream, draw)):
            record = tokens_record(X)
            if bench.spectrum == "full":
                record |= attention_record(network.layer(stream, draw, number + 1), before)
            for name, value in record.items():
                found[name][row, number] = value
            before = X
            if math.isnan(collapsed[row]) and 1 - found["token_cosine"][row, number] < BF16_LEVEL:
                collapsed[row] = number + 1
    if not np.isnan(collapsed).any():
        return {**found, "collapse_depth_bf16": collapsed}
    return {**found, "_collapse_depth_bf16": collapsed}


def first_head(network: Any, setting: NetworkSetting, stream: Any, draw: int) -> tuple[Any, Any]:
    """The operator of the first head of the first layer, and what it makes of its values: the branch before any skip."""
    from rmt.attention.layer import heads_of
    from rmt.attention.norms import normed

    X, first = network.start(stream, draw), network.layer(stream, draw, 1)
    Z = normed(X, setting.norm_kind) if setting.norm == "pre" else X
    operator = heads_of(first, Z)[0]
    columns = first.weights.value.shape[1] // network.groups
    return operator, operator.on_split(Z.times(first.weights.value[:, :columns]))


def tokens_along(network: Any, setting: NetworkSetting, stream: Any, draw: int) -> Any:
    """Tokens after each layer, rounded to bfloat16 there where the setting says so."""
    from rmt.attention.layer import layer_forward
    from rmt.attention.split import split

    if setting.precision == "double":
        yield from (X for _, X in network.layers(stream, draw, setting.depth))
        return
    X = network.start(stream, draw)
    for number in range(1, setting.depth + 1):
        X = layer_forward(network.layer(stream, draw, number), X)
        X = split(bfloat16((X.levelled() if network.homogeneous else X).dense()))
        yield X


def bfloat16(X: Any) -> Any:
    """Float64 numbers rounded to the nearest bfloat16, ties to even, by way of float32."""
    import numpy as np

    bits = X.astype(np.float32).view(np.uint32)
    rounded = bits + 0x7FFF + ((bits >> 16) & 1)
    return (rounded & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)


def tokens_record(X: Any) -> dict[str, float]:
    """What one token matrix says."""
    from rmt.observables import tokens
    from rmt.observables.collapse import pair_cosine, split_cosine, split_residual, split_spectrum

    spectrum = split_spectrum(X)
    excess = float(tokens.gram_stable_rank_excess(spectrum))
    log = float(tokens.log_gram_stable_rank_excess(spectrum))
    n = X.shape[0]
    return {
        "gram_stable_rank": 1 + excess,
        "gram_stable_rank_excess": excess if excess >= SMALLEST_EXCESS else math.nan,
        "log_gram_stable_rank_excess": log if math.isfinite(log) else math.nan,
        "token_stable_rank": float(tokens.token_stable_rank(spectrum)),
        "effective_rank": float(tokens.effective_rank(spectrum)),
        "token_cosine": split_cosine(X),
        "quarter_cosine": pair_cosine(X, max(n // 4, 1) - 1, n - 1),
        "rank_one_residual": split_residual(X),
    }


def attention_record(layer: Any, X: Any) -> dict[str, float]:
    """Entropy of the first head's attention on tokens X, and singular values of its altered matrix: O(n^3).

    outlier_count: singular values above 1.2 times 2 sqrt((||M||_F^2 - s_1^2)/n), the edge of a bulk that holds all energy
    but that of the first.
    """
    import numpy as np

    from rmt.attention.layer import heads_of
    from rmt.attention.norms import normed

    wiring = layer.rules.wiring
    operator = heads_of(layer, normed(X, wiring.norm_kind) if wiring.norm == "pre" else X)[0]
    entropy = math.nan
    if operator.first is not None:
        A = operator.first.dense()
        entropy = float(-np.mean(np.sum(A * np.log(np.where(A > 0, A, 1.0)), axis=1)))
    values = np.linalg.svd(operator.apply(np.eye(operator.n)), compute_uv=False)
    bulk = 2 * math.sqrt(max(float(np.sum(values[1:] ** 2)), 0.0) / operator.n)
    second = float(values[1]) if values.size > 1 else math.nan
    return {
        "attention_entropy": entropy,
        "gap_ratio": second / float(values[0]) if values[0] > 0 else math.nan,
        "outlier_count": float(np.sum(values > max(1.2 * bulk, 1e-7 * float(values[0])))),  # below: rounding
    }


def network_cost(setting: NetworkSetting, bench: Bench, *, passes: float = 1.0) -> Cost:
    """Rough time of one draw on one core, from measured rates, and memory."""
    n, d, values = setting.n, setting.width or setting.n, setting.value_width or setting.n
    heads = setting.heads
    layer = 2.0 * n * n * values / 25e9 + heads * n * n * 3e-9 + 2.0 * n * d * values / 25e9
    spectrum = 2.0 * n * d * min(n, d) / 25e9 + 3e-10 * min(n, d) ** 3
    matrix = 2 * 8 * n * n if n <= 1024 else 0
    memory = 8 * (8 * n * max(d, values) + 3 * d * d) + matrix + 64 * n * 16 * max(1, bench.workers)
    if bench.spectrum == "full":
        spectrum += 1.2e-9 * n**3
        memory += 32 * n * n
    return Cost(seconds=1e-3 + setting.depth * (passes * layer + spectrum), memory=memory, least_memory=memory)
