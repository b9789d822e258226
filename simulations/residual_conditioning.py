"""Residual conditioning: why attention plus a skip connection keeps its rank at initialisation.

Experiment: draw tokens and weights of one attention layer, form Z = Attn(X) + skip_scale X, and measure its extreme
    singular values and condition number over skip scale, size, token correlation and the scaling of the scores;
    `--values opposed` is the counterexample W_V = -skip_scale I; `--n 32 --width 32 --skip-scale 0 --correlation 0
    --head-dim 128 256 512 1024 2048 --scaling fan_out mup standard` gives the exponents of collapse.
Theory: s_min follows the lower Marchenko-Pastur edge times the skip scale, s_max a spiked edge; without the skip, s_2/s_1
    collapses in the head dimension with an exponent that the scaling decides.
Figure: s_min, s_max and the condition number against the skip scale, with theory.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from rmt.experiments.cli import run_experiment
from rmt.experiments.experiment import Bench, Cost, Experiment, by_quantity
from rmt.experiments.setting import check_fields, choice, integer, real

if TYPE_CHECKING:
    from rmt.experiments.results import Results

ZERO = 1e-13  # a singular value below this share of the largest is rounding: the condition number is unknown
SCALINGS = ("standard", "mup", "unscaled", "fan_out", "fan_out_unscaled")


@dataclasses.dataclass(frozen=True)
class Setting:
    """One layer of attention with a residual connection."""

    n: int = integer(256, "tokens")
    skip_scale: float = real(1.0, "factor of the skip connection", at_least=0)
    correlation: float = real(0.0, "correlation of any two tokens, below 1", at_least=0)
    width: int | None = integer(None, "token width d (2 n)")
    head_dim: int = integer(64, "width d_k of queries and keys")
    scaling: str = choice("standard", "how scores are scaled", SCALINGS)
    values: str = choice("gaussian", "value weights: Gaussian, or -skip_scale I", ("gaussian", "opposed"))

    def __post_init__(self) -> None:
        check_fields(self)
        object.__setattr__(self, "width", self.width or 2 * self.n)
        if self.correlation >= 1:
            raise ValueError(f"--correlation {self.correlation}: must lie in [0, 1); choose 0 for independent tokens")

    @property
    def columns(self) -> int:
        """d, filled in."""
        return self.width or 2 * self.n


def measure(setting: Setting, draws: range, stream: Any, bench: Bench) -> dict[str, Any]:
    """Extreme singular values of each draw."""
    return by_quantity(_one_draw(setting, draw, stream, bench) for draw in draws)


def _one_draw(setting: Setting, draw: int, stream: Any, bench: Bench) -> dict[str, float]:
    from rmt.observables.extremes import extreme_singular_values
    from rmt.observables.one_layer import leading
    from rmt.regression.residual_attention import ResidualAttention, score_norm, score_scaling

    layer = ResidualAttention(
        n=setting.n,
        width=setting.columns,
        head_dim=setting.head_dim,
        skip_scale=setting.skip_scale,
        correlation=setting.correlation,
        scaling=setting.scaling,
        values=setting.values,
    )
    X = layer.tokens(stream, draw)
    queries, keys = layer.queries_and_keys(stream, draw, X)
    P = layer.attention(queries, keys, workers=bench.workers, memory_budget=bench.memory_budget)
    found = extreme_singular_values(layer.output(stream, draw, X, P))
    tokens = setting.skip_scale * extreme_singular_values(X).smallest if setting.skip_scale > 0 else 0.0
    scaling = score_scaling(setting.scaling, width=setting.columns, head_dim=setting.head_dim)
    scores = score_norm(queries, keys, scaling.factor) / setting.n
    largest, smallest = found.largest, found.smallest
    over = math.nan
    if scores > 0 and setting.n > 2:
        over = float(leading(P, stream, draw, count=2, start=P.column_sums).values[1]) / scores
    return {
        "smallest_singular_value": smallest,
        "given_draw:smallest_singular_value": tokens,
        "largest_singular_value": largest,
        "condition_number": largest / smallest if smallest > ZERO * largest else math.nan,
        "inverse_condition_number": smallest / largest if largest > 0 else math.nan,
        "gap_ratio": found.second / largest if min(setting.n, setting.columns) > 1 and largest > 0 else math.nan,
        "smallest_over_tokens": smallest / tokens if tokens > 0 else math.nan,
        "second_over_scores": over,
    }


def predict(setting: Setting) -> dict[str, Any]:
    """What theory says of each quantity."""
    from rmt.theorems.residual import residual_predictions

    return residual_predictions(
        n=setting.n,
        width=setting.columns,
        head_dim=setting.head_dim,
        skip_scale=setting.skip_scale,
        correlation=setting.correlation,
        scaling=setting.scaling,
        values=setting.values,
    )


def claims(results: Results) -> list[Any]:
    """Exponents, and what a residual connection does and does not guarantee."""
    from simulations.claims.residual_conditioning import all_claims

    return all_claims(results)


def summary(results: Results) -> str:
    """What the skip connection buys at the largest n, in one sentence."""
    from simulations.claims.residual_conditioning import sentence

    return sentence(results)


def cost(setting: Setting, bench: Bench) -> Cost:
    """Rough time of one draw on one core (30 Gflop/s) and memory."""
    n, d = setting.n, setting.columns
    products = 2.0 * n * d * d * (setting.values == "gaussian") + 2.0 * n * n * d
    short = min(n, d)
    spectra = 2 * (1.0 * max(n, d) * short**2 + short**3) + (12.0 * short**3 if setting.skip_scale == 0 else 0.0)
    memory = 8 * (3 * n * d + 3 * n * n + 1024 * (d + n)) + 10**7
    return Cost(seconds=0.01 + (products + spectra) / 30e9 + 3e-8 * n * n, memory=memory, least_memory=memory)


def figure(results: Results) -> Any:
    """The page of this experiment."""
    from simulations.pages.residual_conditioning import page

    return page(results)


EXPERIMENT = Experiment(
    "residual_conditioning",
    Setting,
    measure,
    predict,
    figure,
    sweep={"n": (64, 256), "skip_scale": (0.0, 0.25, 0.5, 1.0, 2.0), "correlation": (0.0, 0.9)},
    claims=claims,
    summary=summary,
    spectra=("none",),
    headline=(
        "smallest_singular_value",
        "largest_singular_value",
        "condition_number",
        "smallest_over_tokens",
        "gap_ratio",
    ),
    cost=cost,
)

if __name__ == "__main__":
    raise SystemExit(run_experiment(EXPERIMENT))
