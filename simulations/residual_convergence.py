"""Residual convergence: gradient descent on a transformer, its linear rate, and what the skip connection does for it.

Experiment: train every weight of a transformer (attention with a skip, hidden units, readout) with squared loss on
    independent or correlated tokens, windows of daily weather or labelled sentences, over skip scales and depths; log
    loss, s_min of the attention output, tangent kernel, sharpness and drift of the weights.
Theory: Phi(t+1) <= (1 - mu lambda_min(J J^T)) Phi(t) with lambda_min certified by s_min of what the layers hold; late
    phase by the frozen kernel; weights stay within 2 sqrt(2 Lambda Phi(0))/lambda of their start.
Figure: loss against steps by skip scale, and s_min of the attention output along training, per kind of data.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from rmt.experiments.cli import run_experiment
from rmt.experiments.experiment import Bench, Cost, Experiment
from rmt.experiments.setting import Meaningless, check_fields, choice, integer, real, text

if TYPE_CHECKING:
    from rmt.experiments.results import Results

DATA = ("iid", "correlated", "weather", "sentences")
STEPS = {"iid": 4000, "correlated": 2000, "weather": 2000, "sentences": 150}
LAGS = 4  # times in one token of a series


@dataclasses.dataclass(frozen=True)
class Setting:
    """One training run per draw: weights, and tokens or the window of the series, are drawn; sentences are all used."""

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
    steps: int | None = integer(None, "most steps (4000; correlated, weather 2000; sentences 150)")
    n: int | None = integer(None, "tokens per sequence (8; weather and sentences 16)")
    width: int | None = integer(None, "token width (16; series: 4 times its variables)")
    head_dim: int = integer(16, "width d_k of queries and keys")
    hidden: int = integer(64, "hidden units")
    scaling: str = choice(
        "standard", "how scores are scaled", ("standard", "mup", "unscaled", "fan_out", "fan_out_unscaled")
    )
    correlation: float | None = real(None, "of correlated tokens, below 1 (0.9)", at_least=0)
    data_file: str | None = text(None, "one's own series (.csv) or sentences (.tsv: sentence, label)")

    def __post_init__(self) -> None:
        check_fields(self)
        if self.data_file and self.data in ("iid", "correlated"):
            raise Meaningless(f"--data {self.data} reads no file; give --data weather or sentences with --data-file")
        derived: dict[str, Any] = {
            "rate": self.rate or (0.5 if self.optimizer == "gd" else 3e-3),
            "steps": self.steps or STEPS[self.data],
            "n": self.n or (8 if self.data in ("iid", "correlated") else 16),
            "correlation": (0.9 if self.correlation is None else self.correlation)
            if self.data == "correlated"
            else None,
        }
        if derived["correlation"] is not None and derived["correlation"] >= 1:
            raise ValueError(f"--correlation {self.correlation}: must lie in [0, 1)")
        variables = _variables(self) if self.data == "weather" else 0
        derived["width"] = LAGS * variables or self.width or 16
        if self.width not in (None, derived["width"]):
            raise Meaningless(f"--width {self.width}: {variables} variables times {LAGS} lags are {derived['width']}")
        for name, value in derived.items():
            object.__setattr__(self, name, value)
        if derived["width"] % self.heads:
            raise Meaningless(f"{self.heads} heads do not divide width {derived['width']}; choose a divisor")


def _variables(setting: Setting) -> int:
    from rmt.regression.datasets import load_series

    return len(load_series(setting.data_file).names)


def _loss(setting: Setting, stream: Any, draw: int) -> Any:
    from rmt.regression import datasets
    from rmt.regression.transformer_data import embedded_sentences, random_tokens, series_window

    n, width = int(setting.n or 0), int(setting.width or 0)
    if setting.data == "weather":
        return series_window(datasets.load_series(setting.data_file), stream, draw, n=n, lags=LAGS)
    if setting.data == "sentences":
        return embedded_sentences(datasets.load_sentences(setting.data_file), stream, draw, n=n, width=width)
    return random_tokens(stream, draw, n=n, width=width, outputs=2, correlation=setting.correlation or 0.0)


def _model(setting: Setting, loss: Any) -> Any:
    from rmt.regression.transformer_model import Transformer

    return Transformer(
        width=int(setting.width or 0),
        outputs=loss.Y.shape[-1],
        head_dim=setting.head_dim,
        hidden=setting.hidden,
        depth=setting.depth,
        heads=setting.heads,
        activation=setting.activation,
        skip_scale=setting.skip_scale,
        scaling=setting.scaling,
        norm=setting.norm,
        pooled=setting.data == "sentences",
    )


def measure(setting: Setting, draws: range, stream: Any, bench: Bench) -> dict[str, Any]:
    """One training run per draw; see `_one_draw` for what is recorded."""
    import numpy as np

    records = [_one_draw(setting, draw, stream) for draw in draws]
    return {name: np.array([record[name] for record in records]) for name in records[0]}


def _one_draw(setting: Setting, draw: int, stream: Any) -> dict[str, Any]:
    import numpy as np

    from rmt.regression.transformer_loss import certificate, tangent_extremes, tangent_largest, trace
    from rmt.regression.transformer_training import rule_of, train
    from rmt.theorems.residual_convergence import drift_bound

    loss = _loss(setting, stream, draw)
    model = _model(setting, loss)
    start = model.start(stream, draw)
    rate, watched, nothing = setting.rate or 0.5, setting.data != "sentences", math.nan
    low, high = (
        tangent_extremes(start, loss.X) if watched else (nothing, tangent_largest(start, loss.X, tolerance=1e-3))
    )
    step = rate / high if setting.optimizer == "gd" else rate
    run = train(rule_of(setting.optimizer, step), loss, start, steps=setting.steps or 1, watched=watched)
    curves = run.curves
    tokens = np.linalg.svd(trace(start, loss.X)[0][-1].H, compute_uv=False)
    certified = watched and setting.depth == 1 and setting.norm == "none"
    floor = drift_bound(low, float(np.nanmax(curves["tangent_largest"])), run.last.first_loss) if watched else None
    bound = nothing if floor is None else floor
    ended = run.last.diverged_at is None
    return {
        "final_loss_ratio": run.last.loss / run.last.first_loss if ended else nothing,
        "steps_to_thousandth": float(run.reached) if run.reached is not None else nothing,
        "note:steps_to_thousandth": "" if run.reached is not None else f"not reached in {setting.steps} steps",
        "smallest_singular_value": curves["smallest"][0],
        "largest_singular_value": curves["largest"][0],
        "token_gap_ratio": float(np.median(tokens[:, 1] / tokens[:, 0])),
        "tangent_smallest": low if watched else nothing,
        "tangent_largest": high,
        "certificate": certificate(start, loss.X) if certified else nothing,
        "certificate_over_tangent": certificate(start, loss.X) / low if certified and low > 0 else nothing,
        "worst_step_over_bound": (1 - run.worst_ratio) / (step * low) if watched and ended and low > 0 else nothing,
        "late_rate_over_law": run.late_rate / run.late_law if run.late_law else nothing,
        "drift": float(np.linalg.norm(run.last.weights.entries - start.entries) / start.norm),
        "drift_over_bound": float(np.nanmax(curves["drift"])) / bound,
        "smallest_floor": _floor(curves["smallest"]),
        "tangent_floor": _floor(curves["tangent_smallest"]),
        "sharpness": curves["sharpness"][0],
        "sharpness_growth": float(np.nanmax(curves["sharpness"]) / curves["sharpness"][0]) if watched else nothing,
        "mean_rate": _mean_rate(run),
        "diverged_at_step": nothing if ended else float(run.last.diverged_at or 0),
        "_checkpoints": run.checkpoints,
        **{f"_{name}": curve for name, curve in curves.items()},
    }


def _floor(curve: Any) -> float:
    """The lowest point of a curve over its first one."""
    import numpy as np

    return float(np.nanmin(curve) / curve[0]) if np.isfinite(curve[0]) and curve[0] > 0 else math.nan


def _mean_rate(run: Any) -> float:
    """Logarithm of the loss lost per step, down to a thousandth of the loss or to the end."""
    last = run.reached if run.reached is not None else len(run.losses) - 1
    return -math.log(run.losses[last] / run.losses[0]) / last if last > 0 and run.losses[last] > 0 else math.nan


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
