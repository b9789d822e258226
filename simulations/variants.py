"""Variants: every repair of attention on one footing, against gap, rank, cosine and gradient growth.

Experiment: the same network with every variant of its attention: the two largest singular values of the first layer's
    altered matrix, the stable rank of the tokens behind it (width) and behind every layer (depth), their mean cosine, and
    how a gradient grows on the way back, with and without the paths through the softmax.
Theory: none of its own; the statements are claims. Does the gap explain the rank across variants? Under a causal mask
    the running mean is what has to go, not 11^T/n, and only inside a skip connection.
Measured (A(X), n = 1024, d = 256, 12 layers, pre-norm and skip, 4 draws): last stable rank, growth of the gradient by every
    path. No mask: plain 1.7, 2.8; A - 11^T/n 100, 1.08; identity 22, 13; differential 5, 1.4; bulk rescaled to unit energy
    2.2, 3e4. Causal: plain 1.4, 6.7; A - 11^T/n 3.4, 2.1; A - running mean 96, 1.37; I + A - C 22, 14; row gain 4.0, 5e3.
    The gap orders ranks (Spearman 0.5 to 0.8) but not gradients: it does not explain the rank across variants by itself.
Figure: rank after the last layer against the gap; rank against the layer; gradient growth, by variant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmt.experiments.cli import run_experiment
from rmt.experiments.experiment import Bench, Cost, Experiment, by_quantity
from simulations.networks.growth import gradient_growth
from simulations.networks.measure import first_head, network_cost, tokens_along
from simulations.networks.setting import NetworkSetting, network_of

if TYPE_CHECKING:
    from rmt.experiments.results import Results

NAMES = (
    "plain",
    "identity",
    "uniform",
    "outlier_removed",
    "outlier_scaled",
    "centred",
    "centered_self_attention",
    "rescaled",
    "outliers_removed",
    "differential",
    "shaped",
    "value_skipinit",
    "sigma_reparametrised",
    "log_temperature",
    "running_mean_removed",
    "identity_plus_centred",
    "late_removed",
    "ladder_removed",
    "row_gain",
    "differential_gain",
    "two_sided_gain",
)
SPECTRUM = 1024  # up to here all singular values of the altered matrix are computed


def measure(setting: NetworkSetting, draws: range, stream: Any, bench: Bench) -> dict[str, Any]:
    """Gap, ranks and gradient growth of each draw."""
    return by_quantity(_one_draw(setting, draw, stream, bench) for draw in draws)


def _one_draw(setting: NetworkSetting, draw: int, stream: Any, bench: Bench) -> dict[str, Any]:
    import numpy as np

    from rmt.observables import tokens
    from rmt.observables.collapse import split_cosine, split_spectrum

    network = network_of(setting, bench)
    operator, branch = first_head(network, setting, stream, draw)
    s1, s2 = leading(operator, stream, draw)
    ranks, cosines = [], []
    for X in tokens_along(network, setting, stream, draw):
        ranks.append(float(tokens.token_stable_rank(split_spectrum(X))))
        cosines.append(split_cosine(X))
    return {
        "top_singular_value": s1,
        "second_singular_value": s2,
        "spectral_gap": s1 - s2,
        "gap_ratio": s2 / s1 if s1 > 1e-7 else np.nan,
        "branch_stable_rank": float(tokens.token_stable_rank(split_spectrum(branch))),
        "token_stable_rank": np.array(ranks),
        "token_cosine": np.array(cosines),
        **gradient_growth(network, setting, stream, draw),
    }


def leading(operator: Any, stream: Any, draw: int) -> tuple[float, float]:
    """The two largest singular values of an altered attention matrix."""
    import numpy as np

    n = operator.n
    if n <= SPECTRUM:
        values = np.linalg.svd(operator.apply(np.eye(n)), compute_uv=False)
        return float(values[0]), float(values[1]) if n > 1 else float("nan")
    from scipy.sparse.linalg import LinearOperator, svds

    from rmt.arrays import CPU
    from rmt.kernels import kernels_for

    start = kernels_for(CPU).variates(stream.within("svds").words("start", draw), 0, n, 1)[:, 0].astype(np.float64)
    seen = LinearOperator(
        (n, n),
        matvec=lambda v: operator.apply(v.reshape(n, -1))[:, 0],
        rmatvec=lambda v: operator.transposed(v.reshape(n, -1))[:, 0],
        dtype=np.float64,
    )
    values = np.sort(svds(seen, k=2, v0=start, return_singular_vectors=False))[::-1]
    return float(values[0]), float(values[1])


def claims(results: Results) -> list[Any]:
    """Whether the gap explains the rank, and what the repairs do."""
    from simulations.claims.variants import judged

    return judged(results)


def summary(results: Results) -> str:
    """Which repair keeps most rank after the last layer, under each mask."""
    import numpy as np

    parts = []
    for mask in dict.fromkeys(s.mask for s in results.settings):
        settings = results.where(mask=mask, n=max(s.n for s in results.settings))
        ranks = {s: float(np.mean(results.samples[s]["token_stable_rank"][:, -1])) for s in settings}
        best = max(ranks, key=lambda s: ranks[s], default=None)
        plain = next((ranks[s] for s in settings if s.variant == "plain"), None)
        if best is not None and plain is not None:
            parts.append(f"mask {mask}: plain attention {plain:.3g}, at most {ranks[best]:.3g} ({best.variant})")
    return "Stable rank of the tokens after the last layer, " + "; ".join(parts) + "." if parts else ""


def cost(setting: NetworkSetting, bench: Bench) -> Cost:
    """Forward twice, backward twice, and one spectrum."""
    one = network_cost(setting, bench, passes=3.0 + 9.0 * setting.probes)
    spectrum = 6e-10 * min(setting.n, SPECTRUM) ** 3
    kept = 8 * setting.n * (setting.width or 1) * (2 * int(setting.depth**0.5) + 8) + 32 * min(setting.n, SPECTRUM) ** 2
    return Cost(one.seconds + spectrum, one.memory + kept, one.least_memory + kept)


def figure(results: Results) -> Any:
    """The page of this experiment."""
    from simulations.pages.variants import page

    return page(results)


EXPERIMENT = Experiment(
    "variants",
    NetworkSetting,
    measure,
    None,
    figure,
    sweep={
        "n": (256,),
        "depth": (8,),
        "model": ("own",),
        "tokens": ("gaussian",),
        "norm": ("pre",),
        "skip_scale": ("1",),
        "probes": (1,),
        "eta": (0.5,),
        "mask": ("none", "causal"),
        "variant": NAMES,
    },
    claims=claims,
    summary=summary,
    index={"token_stable_rank": "layer", "token_cosine": "layer"},
    headline=("gap_ratio", "branch_stable_rank", "gradient_factor", "frozen_gradient_factor", "last_half_share"),
    spectra=("none",),
    cost=cost,
)

if __name__ == "__main__":
    raise SystemExit(run_experiment(EXPERIMENT))
