"""Rank collapse in depth: what many layers of softmax attention leave of the tokens.

Experiment: draw a network at initialisation, layer by layer, with independent, key-query or the tokens' own logits, with
    and without repairs, skips and norms, and measure rank, cosine and residual of the tokens after every layer. Mean and
    rest of the tokens are kept apart, so that a collapse is followed to any depth.
Theory: the excess of the Gram stable rank over one falls like sigma^(4l) n^(1-2l) where the outlier is kept; removed, the
    rank stays proportional to n and falls like 1/l. A skip slows the collapse, a branch scaled by 1/sqrt(depth) stops it.
Figure: excess, rank and cosine against the layer, theory with its bands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmt.experiments.cli import run_experiment
from rmt.experiments.experiment import Experiment
from simulations.networks.measure import BY_LAYER, OF_ATTENTION, along_depth, network_cost
from simulations.networks.setting import NetworkSetting

if TYPE_CHECKING:
    from rmt.experiments.results import Results


def predict(setting: NetworkSetting) -> dict[str, Any]:
    """What theory says of each layer."""
    if setting.weight_init != "gaussian" or setting.position != "none" or setting.mlp is not None:
        return {}
    from rmt.theorems.depth import depth_predictions

    return dict(
        depth_predictions(
            model=setting.model,
            n=setting.n,
            width=setting.width or setting.n,
            value_width=setting.value_width or setting.n,
            beta=setting.beta,
            head_dim=setting.head_dim,
            depth=setting.depth,
            variant=setting.variant,
            heads=setting.heads,
            mask=setting.mask,
            tokens=str(setting.tokens),
            skip=setting.skip,
            norm=setting.norm,
            exact=setting.precision == "double",
            eta=setting.eta,
        )
    )


def claims(results: Results) -> list[Any]:
    """Powers of n at fixed layer, where the width follows n: the excess of kept ranks, and removed ranks."""
    from rmt.statistics.claims import exponent_claim

    found = []
    lines: dict[Any, list[Any]] = {}
    for setting in results.settings:
        if setting.width == setting.n and setting.tokens == "orthonormal":
            lines.setdefault(setting.but_for_size, []).append(setting)
    for line in lines.values():
        line.sort(key=lambda s: s.n)
        group = line[0]
        plain = group.skip is None and group.norm == "none" and group.mask == "none" and group.model != "own"
        if (
            len(line) < 3
            or not plain
            or group.variant not in ("plain", "outlier_removed")
            or group.precision != "double"
        ):
            continue
        kept = group.variant == "plain"
        quantity = "gram_stable_rank_excess" if kept else "gram_stable_rank"
        for layer in range(1, min(group.depth, 3) + 1):
            power = 1 - 2 * layer if kept else 1
            what = "excess of the rank" if kept else "rank without the outlier"
            found.append(
                exponent_claim(
                    f"{group.model} logits, beta = {group.beta:.4g}: {what} after layer {layer} goes like n^{power}",
                    [s.n for s in line],
                    [results.samples[s][quantity][:, layer - 1] for s in line],
                    predicted=power,
                    tolerance=0.1 * max(abs(power), 1.0) + 0.05,
                    expected="supported" if group.model == "iid" else None,
                    source="nait-saada2024; derived, see rmt.theorems.depth",
                )
            )
    return found


def summary(results: Results) -> str:
    """First and last layer, kept and removed, at the largest n."""
    import numpy as np

    n = max(s.n for s in results.settings)
    parts = []
    for variant, words in (("plain", "as it is"), ("outlier_removed", "with the outlier removed")):
        found = results.where(n=n, variant=variant)
        if found:
            ranks = np.nanmedian(results.samples[found[0]]["token_stable_rank"], axis=0)
            parts.append(f"{words} {ranks[0]:.3g} after one layer and {ranks[-1]:.4g} after {found[0].depth}")
    return f"Stable rank of {n} tokens: " + "; ".join(parts) + "." if parts else ""


def figure(results: Results) -> Any:
    """The page of this experiment."""
    from simulations.pages.depth_collapse import page

    return page(results)


def measure(setting: NetworkSetting, draws: range, stream: Any, bench: Any) -> dict[str, Any]:
    """Observables of every layer of each draw."""
    return along_depth(setting, draws, stream, bench)


EXPERIMENT = Experiment(
    "depth_collapse",
    NetworkSetting,
    measure,
    predict,
    figure,
    sweep={"n": (128, 256, 512), "model": ("iid",), "variant": ("plain", "outlier_removed")},
    claims=claims,
    summary=summary,
    index=dict.fromkeys(BY_LAYER + OF_ATTENTION, "layer"),
    headline=(
        "gram_stable_rank_excess",
        "log_gram_stable_rank_excess",
        "gram_stable_rank",
        "token_stable_rank",
        "token_cosine",
    ),
    spectra=("none", "full"),
    cost=network_cost,
)

if __name__ == "__main__":
    raise SystemExit(run_experiment(EXPERIMENT))
