"""Gradient norms: how the Jacobian of the last tokens with respect to a layer's weights grows with n and depth.

Experiment: exact squared Frobenius norms of dX_L/dW_l for the value weights of every layer, where attention does not look
    at its tokens; unbiased estimates by backward passes through softmax, norms and skips where it does (then for query
    and key weights as well). --value-scale 1 and 1/sqrtd are the two conventions of value weights.
Theory: E = d (s^2 d)^(L-1) F_L for every l, F_L = E ||A_L ... A_1||_F^2: about 1 with the outlier kept, sigma^(2L) n^(1-L)
    with it removed. "Exploding" and "vanishing" are statements about s.
Figure: the norm against n, kept and removed, in both conventions; against the layer.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from rmt.experiments.cli import run_experiment
from rmt.experiments.experiment import Bench, Cost, Experiment
from simulations.networks.measure import network_cost
from simulations.networks.setting import NetworkSetting, network_of

if TYPE_CHECKING:
    from rmt.experiments.results import Results

LOOKED_AT = ("query", "key")  # weights with a gradient only where attention looks at its tokens


def measure(setting: NetworkSetting, draws: range, stream: Any, bench: Bench) -> dict[str, Any]:
    """||dX_L/dW_l||_F^2 of each draw and layer, averaged over `probes` weight draws or cotangents."""
    import numpy as np

    from rmt.attention.gradient_norms import factorised_norms, factorises, probed_norms

    network = dataclasses.replace(network_of(setting, bench), token_norm="one")
    if factorises(network):
        logs = [factorised_norms(network, stream, draw, setting.depth, weight_draws=setting.probes) for draw in draws]
        return {"gradient_norm_squared": np.exp(np.array(logs)).mean(axis=1)}
    looks = setting.model == "own" and network.rules.mixture.attention != 0
    names = ("value", *(LOOKED_AT if looks else ()))
    found: dict[str, list[Any]] = {name: [] for name in names}
    for draw in draws:
        squares = probed_norms(network, stream, draw, setting.depth, probes=setting.probes, weights=names)
        for name in names:
            found[name].append(squares[name].mean(axis=0))
    quantities = {"value": "gradient_norm_squared", "query": "query_gradient_squared", "key": "key_gradient_squared"}
    return {quantities[name]: np.array(rows) for name, rows in found.items()}


def factors(setting: NetworkSetting) -> bool:
    """Whether the Jacobian of this setting is a Kronecker product."""
    plain = setting.model != "own" and setting.norm == "none" and setting.skip is None and setting.mlp is None
    return plain and setting.heads == 1 and setting.value_width == setting.width


def predict(setting: NetworkSetting) -> dict[str, Any]:
    """What theory says, the same for every layer."""
    if setting.position != "none":
        return {}
    from rmt.theorems.gradient_norms import gradient_predictions

    return dict(
        gradient_predictions(
            model=setting.model,
            n=setting.n,
            width=setting.width or setting.n,
            beta=setting.beta,
            head_dim=setting.head_dim,
            depth=setting.depth,
            variant=setting.variant if setting.mask == "none" else "masked",
            unit_weights=setting.value_scale == "1",
            factorises=factors(setting) and setting.tokens in ("orthonormal", "gaussian"),
        )
    )


def claims(results: Results) -> list[Any]:
    """The norm does not depend on the layer; it grows with the predicted power of n, which the weight scale decides."""
    from rmt.statistics.claims import constant_claim, exponent_claim

    found = []
    for setting in results.settings:
        samples = results.samples[setting]["gradient_norm_squared"]
        if factors(setting) and setting.depth > 1 and (samples > 0).all():
            found.append(
                constant_claim(
                    f"{_words(setting)}, n = {setting.n}: the norm is the same for every layer (over the layers' mean)",
                    range(1, setting.depth + 1),
                    list((samples / samples.mean(axis=1, keepdims=True)).T),
                    along="layer",
                    predicted=1.0,
                    tolerance=0.05,
                    expected="supported",
                    statistic="mean",
                    source="derived, see rmt.theorems.gradient_norms",
                )
            )
    lines: dict[Any, list[NetworkSetting]] = {}
    for setting in results.settings:
        if setting.width == setting.n:
            lines.setdefault(setting.but_for_size, []).append(setting)
    for line in lines.values():
        line.sort(key=lambda s: s.n)
        group = line[0]
        if len(line) < 3 or not factors(group) or group.variant not in ("plain", "outlier_removed"):
            continue
        L, removed = group.depth, group.variant == "outlier_removed"
        power = (L if group.value_scale == "1" else 1) - (L - 1 if removed else 0)
        ends = [predict(s)["gradient_norm_squared"][1].value for s in (line[0], line[-1])]
        slope = math.log(ends[1] / ends[0]) / math.log(line[-1].n / line[0].n) if all(ends) else float(power)
        found.append(
            exponent_claim(
                f"{_words(group)}: the norm grows like n^{power} at width n (here n^{slope:.2f}: sigma_n still grows)",
                [s.n for s in line],
                [results.samples[s]["gradient_norm_squared"].mean(axis=1) for s in line],
                predicted=slope,
                tolerance=0.1,
                expected="supported",
                statistic="mean",
                source="nait-saada2024; derived, see rmt.theorems.gradient_norms",
            )
        )
    return found


def _words(setting: NetworkSetting) -> str:
    kept = {"plain": "outlier kept", "outlier_removed": "outlier removed"}.get(setting.variant, setting.variant)
    return f"{kept}, value weights of deviation {setting.value_scale}, L = {setting.depth}"


def summary(results: Results) -> str:
    """Kept over removed at the largest n, and what the weight scale makes of it."""
    import numpy as np

    n = max(s.n for s in results.settings)
    parts = []
    for scale in dict.fromkeys(s.value_scale for s in results.settings):
        norms = {
            s.variant: float(np.mean(results.samples[s]["gradient_norm_squared"]))
            for s in results.where(n=n, value_scale=scale)
        }
        if {"plain", "outlier_removed"} <= set(norms):
            kept, removed = norms["plain"], norms["outlier_removed"]
            parts.append(f"with value weights of deviation {scale} {kept:.3g} kept and {removed:.3g} removed")
    return f"Squared gradient norm at n = {n}: " + "; ".join(parts) + "." if parts else ""


def cost(setting: NetworkSetting, bench: Bench) -> Cost:
    """Weight draws are cheap beside backward passes."""
    one = network_cost(setting, bench, passes=1.0 if factors(setting) else 6.0 * setting.probes)
    chains = setting.probes * setting.depth * 8.0 * (setting.width or 1) ** 3 / 25e9 if factors(setting) else 0.0
    kept = 8 * setting.n * (setting.width or 1) * (2 * math.isqrt(setting.depth) + 8)
    return Cost(one.seconds + chains, one.memory + kept, one.least_memory + kept)


def figure(results: Results) -> Any:
    """The page of this experiment."""
    from simulations.pages.gradient_norms import page

    return page(results)


EXPERIMENT = Experiment(
    "gradient_norms",
    NetworkSetting,
    measure,
    predict,
    figure,
    sweep={
        "n": (100, 200, 400),
        "depth": (3,),
        "value_scale": ("1", "1/sqrtd"),
        "variant": ("plain", "outlier_removed"),
    },
    claims=claims,
    summary=summary,
    index=dict.fromkeys(("gradient_norm_squared", "query_gradient_squared", "key_gradient_squared"), "layer"),
    spectra=("none",),
    cost=cost,
)

if __name__ == "__main__":
    raise SystemExit(run_experiment(EXPERIMENT))
