"""Cause and effect: does the spectral gap cause the collapse in width, and does it worsen depth and gradients?

Experiment: a dose-response. The outlier of the same attention matrices is scaled by eta from 0 (removed) to 1 (kept), the
    bulk untouched: A - (1 - eta) 11^T/n. Measured at every dose: the gap; the stable rank behind the first layer; how fast
    the tokens collapse from layer to layer; how a gradient grows from layer to layer, in both conventions of the weights.
Theory: the paper says that the gap causes (iii) the collapse in width, and through it worsens (i) vanishing or exploding
    gradients and (ii) the collapse in depth. Excess of the Gram stable rank ~ eta^(-4l), gradients ~ eta^(2L).
Measured (iid logits, no skip, n = d = 128 to 512, L = 4, 16 draws): (iii) holds: without the outlier the rank behind one
    layer is n^1.0 (73 at n = 512), with it 2.0. (ii) holds as a worsening: a layer takes e^12 off the excess with the
    outlier and e^0.4 without, but the rank goes on falling. (i) is a statement about the weights: with unit weights the
    outlier makes gradients explode (e^6 a layer against e^0); with the usual 1/sqrt(d) it is what keeps them from
    vanishing (e^-0.2 a layer against e^-6). With skip, pre-norm and the tokens' own logits (n = 128, 4 draws) all three
    hold: rank 2.0 against 13.7, collapse e^1.1 against e^0.1 a layer, gradients e^0.5 against e^0.03 a layer.
Figure: the three effects against eta.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rmt.experiments.cli import run_experiment
from rmt.experiments.experiment import Bench, Cost, Experiment, by_quantity
from simulations.gradient_norms import factors
from simulations.networks.measure import first_head, network_cost, tokens_along
from simulations.networks.setting import NetworkSetting, network_of

if TYPE_CHECKING:
    from rmt.experiments.results import Results

DOSES = (0.0, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1.0)


def measure(setting: NetworkSetting, draws: range, stream: Any, bench: Bench) -> dict[str, Any]:
    """Gap and effects of each draw."""
    return by_quantity(_one_draw(setting, draw, stream, bench) for draw in draws)


def _one_draw(setting: NetworkSetting, draw: int, stream: Any, bench: Bench) -> dict[str, Any]:
    from rmt.observables import tokens
    from rmt.observables.collapse import split_cosine, split_spectrum
    from simulations.variants import leading

    network = network_of(setting, bench)
    operator, branch = first_head(network, setting, stream, draw)
    s1, s2 = leading(operator, stream, draw)
    spectra = [split_spectrum(branch)]
    for X in tokens_along(network, setting, stream, draw):
        spectra.append(split_spectrum(X))
    logs = [float(tokens.log_gram_stable_rank_excess(spectrum)) for spectrum in spectra[1:]]
    ranks = [float(tokens.token_stable_rank(spectrum)) for spectrum in spectra]
    steps = max(setting.depth - 1, 1)
    return {
        "spectral_gap": s1 - s2,
        "gap_ratio": s2 / s1 if s1 > 0 else math.nan,
        "branch_stable_rank": ranks[0],
        "last_stable_rank": ranks[-1],
        "last_cosine": split_cosine(X),
        "collapse_rate": (logs[0] - logs[-1]) / steps if math.isfinite(logs[0]) else math.nan,
        "gradient_growth": _growth(network, setting, stream, draw),
    }


def _growth(network: Any, setting: NetworkSetting, stream: Any, draw: int) -> float:
    """ln of the factor by which ||dX_L/dW_1||_F^2 (value weights) grows with every layer after the first."""
    import numpy as np

    from rmt.attention.gradient_norms import factorised_norms, factorises, probed_norms

    ends = []
    for depth in (1, max(setting.depth, 2)):
        if factorises(network):
            logs = factorised_norms(network, stream, draw, depth, weight_draws=setting.probes)[:, 0]
            top = logs.max()
            ends.append(float(np.log(np.mean(np.exp(logs - top))) + top) if np.isfinite(top) else -math.inf)
        else:
            squares = probed_norms(network, stream, draw, depth, probes=setting.probes)["value"][:, 0]
            ends.append(math.log(float(np.mean(squares))) if np.any(squares) else -math.inf)
    return (ends[1] - ends[0]) / max(setting.depth - 1, 1) if np.isfinite(ends).all() else math.nan


def predict(setting: NetworkSetting) -> dict[str, Any]:
    """Collapse per layer and gradient growth, where attention does not look at its tokens and nothing is skipped."""
    from rmt.theorems.dose import dose_predictions

    if not factors(setting) or setting.mask != "none" or setting.weight_init != "gaussian":
        return {}
    return dict(
        dose_predictions(
            model=setting.model,
            n=setting.n,
            width=setting.width or setting.n,
            beta=setting.beta,
            head_dim=setting.head_dim,
            depth=setting.depth,
            eta=setting.eta,
            unit_weights=setting.value_scale == "1",
            tokens=str(setting.tokens),
        )
    )


def claims(results: Results) -> list[Any]:
    """A verdict on each of (i), (ii), (iii)."""
    from simulations.claims.cause_and_effect import judged

    return judged(results)


def summary(results: Results) -> str:
    """The three effects at both ends of the dose, at the largest n."""
    import numpy as np

    n = max(s.n for s in results.settings)
    parts: list[str] = []
    for scale in dict.fromkeys(s.value_scale for s in results.settings):
        ends = {s.eta: results.samples[s] for s in results.where(n=n, value_scale=scale)}
        if not {0.0, 1.0} <= set(ends):
            continue
        without, whole = ({k: float(np.mean(v)) for k, v in ends[dose].items()} for dose in (0.0, 1.0))
        if not parts:
            parts.append(
                f"the rank behind one layer falls from {without['branch_stable_rank']:.3g} to "
                f"{whole['branch_stable_rank']:.3g}, the collapse per layer rises from "
                f"e^{without['collapse_rate']:.2g} to e^{whole['collapse_rate']:.2g}"
            )
        parts.append(
            f"with value weights of deviation {scale} a gradient changes per layer by e^{without['gradient_growth']:.2g} "
            f"without and e^{whole['gradient_growth']:.2g} with the outlier"
        )
    return f"From no outlier to the whole outlier at n = {n}: " + "; ".join(parts) + "." if parts else ""


def cost(setting: NetworkSetting, bench: Bench) -> Cost:
    """Forward, one spectrum, and gradients at two depths."""
    one = network_cost(setting, bench, passes=3.0 if factors(setting) else 2.0 + 6.0 * setting.probes)
    kept = 8 * setting.n * (setting.width or 1) * (2 * math.isqrt(setting.depth) + 8)
    return Cost(one.seconds + 6e-10 * min(setting.n, 1024) ** 3, one.memory + kept, one.least_memory + kept)


def figure(results: Results) -> Any:
    """The page of this experiment."""
    from simulations.pages.cause_and_effect import page

    return page(results)


EXPERIMENT = Experiment(
    "cause_and_effect",
    NetworkSetting,
    measure,
    predict,
    figure,
    sweep={
        "n": (128, 256, 512),
        "depth": (4,),
        "variant": ("outlier_scaled",),
        "eta": DOSES,
        "value_scale": ("1/sqrtd", "1"),
        "probes": (4,),
    },
    claims=claims,
    summary=summary,
    spectra=("none",),
    cost=cost,
)

if __name__ == "__main__":
    raise SystemExit(run_experiment(EXPERIMENT))
