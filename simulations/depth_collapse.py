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
from simulations.networks.measure import BY_LAYER, along_depth, network_cost
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


def summary(results: Results) -> str:
    """First and last layer, kept and removed, at the largest n."""
    import numpy as np

    n = max(s.n for s in results.settings)
    parts = []
    for variant, words in (("plain", "as it is"), ("outlier_removed", "with the outlier removed")):
        found = results.where(n=n, variant=variant)
        if found:
            ranks = np.nanmedian(results.samples[found[0]]["token_stable_rank"], axis=0)
            parts.append(f"{words} {ranks[0]:.3g} after one layer and {ranks[-1]:.6g} after {found[0].depth}")
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
    sweep={"n": (256, 512), "model": ("iid",), "variant": ("plain", "outlier_removed")},
    summary=summary,
    index=dict.fromkeys(BY_LAYER, "layer"),
    headline=(
        "gram_stable_rank_excess",
        "log_gram_stable_rank_excess",
        "gram_stable_rank",
        "token_stable_rank",
        "token_cosine",
    ),
    spectra=("none",),
    cost=network_cost,
)

if __name__ == "__main__":
    raise SystemExit(run_experiment(EXPERIMENT))
