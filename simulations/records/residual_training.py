"""What is recorded of one training run of residual_convergence."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from rmt.regression.datasets import load_sentences, load_series
from rmt.regression.transformer_data import embedded_sentences, random_tokens, series_window
from rmt.regression.transformer_loss import SquaredLoss, certificate, tangent_extremes, tangent_largest, trace
from rmt.regression.transformer_model import Transformer
from rmt.regression.transformer_training import Run, rule_of, train
from rmt.streams import Stream
from rmt.theorems.residual_convergence import drift_bound

if TYPE_CHECKING:
    from simulations.residual_convergence import Setting


def record_of(setting: Setting, stream: Stream, draw: int, *, lags: int) -> dict[str, Any]:
    """Train once. Ratios to bounds and laws are taken draw by draw; what is undefined is nan.

    Tangent kernel, sharpness and s_min are left out for sentences: they belong to one sequence.
    """
    loss = problem_of(setting, stream, draw, lags=lags)
    model = model_of(setting, loss)
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
    allowed = drift_bound(low, float(np.nanmax(curves["tangent_largest"])), run.last.first_loss) if watched else None
    ended = run.last.diverged_at is None
    return {
        "final_loss_ratio": run.last.loss / run.last.first_loss if ended else nothing,
        "steps_to_thousandth": float(run.reached) if run.reached is not None else nothing,
        "note:steps_to_thousandth": "" if run.reached is not None else f"not reached in {setting.steps} steps",
        "smallest_singular_value": curves["smallest"][0],
        "largest_singular_value": curves["largest"][0],
        "token_gap_ratio": float(np.median(tokens[:, 1] / tokens[:, 0])) if tokens.shape[1] > 1 else nothing,
        "tangent_smallest": low if watched else nothing,
        "tangent_largest": high,
        "certificate": certificate(start, loss.X) if certified else nothing,
        "certificate_over_tangent": certificate(start, loss.X) / low if certified and low > 0 else nothing,
        "worst_step_over_bound": (1 - run.worst_ratio) / (step * low) if watched and ended and low > 0 else nothing,
        "late_rate_over_law": run.late_rate / run.late_law if run.late_law else nothing,
        "drift": float(np.linalg.norm(run.last.weights.entries - start.entries) / start.norm),
        "drift_over_bound": nothing if allowed is None else float(np.nanmax(curves["drift"])) / allowed,
        "smallest_floor": _floor(curves["smallest"]),
        "tangent_floor": _floor(curves["tangent_smallest"]),
        "sharpness": curves["sharpness"][0],
        "sharpness_growth": float(np.nanmax(curves["sharpness"]) / curves["sharpness"][0]) if watched else nothing,
        "mean_rate": _mean_rate(run),
        "diverged_at_step": nothing if ended else float(run.last.diverged_at or 0),
        "_checkpoints": run.checkpoints,
        **{f"_{name}": curve for name, curve in curves.items()},
    }


def problem_of(setting: Setting, stream: Stream, draw: int, *, lags: int) -> SquaredLoss:
    """The data of one draw."""
    n, width = int(setting.n or 0), int(setting.width or 0)
    if setting.data == "weather":
        return series_window(load_series(setting.data_file), stream, draw, n=n, lags=lags)
    if setting.data == "sentences":
        return embedded_sentences(
            load_sentences(setting.data_file), stream, draw, n=n, width=width, count=setting.sentences
        )
    return random_tokens(stream, draw, n=n, width=width, outputs=2, correlation=setting.correlation or 0.0)


def model_of(setting: Setting, loss: SquaredLoss) -> Transformer:
    """The network of a setting, for these data."""
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


def _floor(curve: np.ndarray) -> float:
    """The lowest point of a curve over its first one."""
    return float(np.nanmin(curve) / curve[0]) if np.isfinite(curve[0]) and curve[0] > 0 else math.nan


def _mean_rate(run: Run) -> float:
    """Logarithm of the loss lost per step, down to a thousandth of the loss or to the end."""
    last = run.reached if run.reached is not None else len(run.losses) - 1
    return -math.log(run.losses[last] / run.losses[0]) / last if last > 0 and run.losses[last] > 0 else math.nan
