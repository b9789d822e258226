"""Residual convergence: gradient descent on a transformer, its linear rate, and what the skip connection does for it.

Experiment: train every weight of a transformer (attention with a skip, hidden units, readout) with squared loss on
    independent or correlated tokens, windows of daily weather or labelled sentences, over skip scales and depths; log
    loss, s_min of the attention output, tangent kernel, sharpness and drift of the weights.
    `--data sentences --norm post --depth 2 6 10 --skip-scale 0 1 --activation relu --hidden 32` asks what the skip does
    for depth.
Theory: Phi(t+1) <= (1 - mu lambda_min(J J^T)) Phi(t) with lambda_min certified by s_min of what the layers hold; late
    phase by the frozen kernel; weights stay within 2 sqrt(2 Lambda Phi(0))/lambda of their start.
Figure: loss against steps by skip scale, and s_min of the attention output along training, per kind of data.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from rmt.experiments.cli import run_experiment
from rmt.experiments.experiment import Bench, Cost, Experiment, by_quantity
from rmt.experiments.setting import Meaningless, check_fields, choice, integer, real, text

if TYPE_CHECKING:
    from rmt.experiments.results import Results

DATA = ("iid", "correlated", "weather", "sentences")
STEPS = {"iid": 20000, "correlated": 2000, "weather": 2000, "sentences": 150}
LAGS = 4  # times in one token of a series


@dataclasses.dataclass(frozen=True)
class Setting:
    """One training run per draw: weights, and tokens, the window of the series or the words' vectors, are drawn."""

    data: str = choice("iid", "what is learned", DATA)
    skip_scale: float = real(1.0, "factor of the skip connection around attention", at_least=0)
    depth: int = integer(1, "layers")
    heads: int = integer(1, "heads per layer")
    norm: str = choice("none", "where tokens are normalised", ("none", "pre", "post"))
    activation: str = choice("gelu", "of the hidden units", ("relu", "gelu", "tanh"))
    optimizer: str = choice("gd", "how the weights are trained", ("gd", "adam"))
    rate: float | None = real(
        None, "step times lambda_max of the first tangent kernel (0.5); Adam's step (0.003)", above=0
    )
    steps: int | None = integer(None, "most steps (20000; correlated, weather 2000; sentences 150)")
    n: int | None = integer(None, "tokens per sequence (8; weather and sentences 16)")
    width: int | None = integer(None, "token width (16; series: 4 times its variables)")
    head_dim: int = integer(16, "width d_k of queries and keys")
    hidden: int = integer(64, "hidden units")
    scaling: str = choice(
        "standard", "how scores are scaled", ("standard", "mup", "unscaled", "fan_out", "fan_out_unscaled")
    )
    correlation: float | None = real(None, "of correlated tokens, below 1 (0.9)", at_least=0)
    sentences: int | None = integer(None, "how many sentences are learned, each draw its own choice (200)", at_least=2)
    data_file: str | None = text(None, "one's own series (.csv) or sentences (.tsv: sentence, label)")

    def __post_init__(self) -> None:
        check_fields(self)
        if self.data_file and self.data in ("iid", "correlated"):
            raise Meaningless(f"--data {self.data} reads no file; give --data weather or sentences with --data-file")
        derived: dict[str, Any] = {
            "rate": self.rate or (0.5 if self.optimizer == "gd" else 3e-3),
            "steps": self.steps or STEPS[self.data],
            "sentences": (self.sentences or 200) if self.data == "sentences" else None,
            "n": self.n or (8 if self.data in ("iid", "correlated") else 16),
            "correlation": (0.9 if self.correlation is None else self.correlation)
            if self.data == "correlated"
            else None,
        }
        if derived["correlation"] is not None and derived["correlation"] >= 1:
            raise ValueError(f"--correlation {self.correlation}: must lie in [0, 1)")
        variables = _variables(self)
        derived["width"] = LAGS * variables or self.width or 16
        if self.width not in (None, derived["width"]):
            raise Meaningless(f"--width {self.width}: {variables} variables times {LAGS} lags are {derived['width']}")
        for name, value in derived.items():
            object.__setattr__(self, name, value)
        if derived["width"] % self.heads:
            raise Meaningless(f"{self.heads} heads do not divide width {derived['width']}; choose a divisor")


def _variables(setting: Setting) -> int:
    """Variables of the series, 0 for other data; data that are not there are a usage error."""
    from rmt.regression.datasets import load_sentences, load_series

    if setting.data == "sentences":
        load_sentences(setting.data_file)
    return len(load_series(setting.data_file).names) if setting.data == "weather" else 0


def measure(setting: Setting, draws: range, stream: Any, bench: Bench) -> dict[str, Any]:
    """One training run per draw; see `simulations.records.residual_training` for what is recorded."""

    from simulations.records.residual_training import record_of

    return by_quantity(record_of(setting, stream, draw, lags=LAGS) for draw in draws)


def predict(setting: Setting) -> dict[str, Any]:
    """Bounds and the late-phase law."""
    from rmt.theorems.residual_convergence import convergence_predictions

    fits = setting.data != "sentences" and int(setting.n or 0) <= min(int(setting.width or 0), setting.hidden)
    return convergence_predictions(
        tokens=setting.data,
        optimizer=setting.optimizer,
        rate=setting.rate or 0.5,
        depth=setting.depth,
        norm=setting.norm,
        certified=fits,
    )


def cost(setting: Setting, bench: Bench) -> Cost:
    """Rough time of one draw on one core: 0.2 ms per step and layer on one sequence, 3 ms on all sentences."""
    per_step = (4e-3 if setting.data == "sentences" else 2.5e-4) * setting.depth
    return Cost(seconds=per_step * (setting.steps or 1) + 0.5, memory=2 * 10**8, least_memory=10**8)


def claims(results: Results) -> list[Any]:
    """Global minimum, stall, monotone effect of the skip, induction of the proof, rate against conditioning, depth."""
    from simulations.claims.residual_convergence import all_claims

    return all_claims(results)


def summary(results: Results) -> str:
    """Where training ends, by data and skip scale, in one sentence."""
    from simulations.claims.residual_convergence import sentence

    return sentence(results)


def figure(results: Results) -> Any:
    """The page of this experiment."""
    from simulations.pages.residual_convergence import page

    return page(results)


EXPERIMENT = Experiment(
    "residual_convergence",
    Setting,
    measure,
    predict,
    figure,
    sweep={"data": ("iid", "correlated", "weather"), "skip_scale": (0.0, 0.25, 0.5, 1.0, 2.0)},
    claims=claims,
    summary=summary,
    spectra=("none",),
    headline=("final_loss_ratio", "steps_to_thousandth", "smallest_singular_value", "tangent_smallest", "drift"),
    cost=cost,
)

if __name__ == "__main__":
    raise SystemExit(run_experiment(EXPERIMENT))
