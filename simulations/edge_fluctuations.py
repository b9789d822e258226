"""Edge fluctuations: how the largest singular value of (I - 11^T/n) A, in essence s2 of A, moves from draw to draw.

Experiment: sample many small attention matrices, a batch to each draw, and put their largest squared singular value in
    the units of a Gaussian edge, xi = (n s^2 - centre)/scale.
Theory: xi follows the Tracy-Widom law of symmetric matrices; its mean is moved by 2^(2/3) kappa n^(-1/3), kappa the
    excess fluctuation of a row's length (`rmt.theorems.edge_fluctuations`).
Figure: cdf of xi, correction taken off, with the law; mean of xi against n with the corrected and the plain theory.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from rmt.experiments.cli import run_experiment
from rmt.experiments.experiment import Bench, Cost, Experiment
from rmt.experiments.setting import check_fields, choice, integer, real

if TYPE_CHECKING:
    from rmt.experiments.results import Results

MILD = 0.3  # beta of lognormal weights unless another is given: light enough for the expansion at n of a hundred
SPAN = 8  # ratio of sizes from which an exponent is worth fitting


@dataclasses.dataclass(frozen=True)
class Setting:
    """A batch of attention layers over n tokens."""

    n: int = integer(256, "context length", at_least=8)
    model: str = choice("iid", "logits: independent, or queries times keys", ("iid", "keyquery"))
    weights: str | None = choice(
        "exponential", "law of the iid weights", ("lognormal", "exponential", "uniform", "gamma")
    )
    beta: float | None = real(MILD, "nominal standard deviation of the logits", above=0, at_most=1e4)
    head_dim: int | None = integer(64, "width d_k of queries and keys")
    batch: int = integer(192, "matrices in a draw")

    def __post_init__(self) -> None:
        check_fields(self)
        iid = self.model == "iid"
        weights = (self.weights or "exponential") if iid else None
        light = weights not in (None, "lognormal")
        derived = {
            "weights": weights,
            "head_dim": None if iid else self.head_dim or 64,
            "beta": None if light else self.beta or MILD,  # light weights have no temperature
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)


def _edge(setting: Setting) -> Any:
    from rmt.theorems.edge_fluctuations import EdgeFluctuation

    return EdgeFluctuation(setting.n, setting.beta, setting.head_dim, setting.weights or "lognormal")


def measure(setting: Setting, draws: range, stream: Any, bench: Bench) -> dict[str, Any]:
    """Batch means of xi, of its squared deviation from the predicted mean, and of the shares below the deciles of TW_1."""
    import numpy as np

    from rmt.laws.tracy_widom import TracyWidom
    from rmt.theorems.edge_fluctuations import TENTHS

    edge, law = _edge(setting), TracyWidom(beta=1)
    size = setting.batch
    xi = np.array(
        [
            [
                _coordinate(setting, edge.scaling, number, stream, bench)
                for number in range(draw * size, (draw + 1) * size)
            ]
            for draw in draws
        ]
    )
    away = xi - edge.shift
    return {
        "edge_coordinate": xi.mean(1),
        "edge_variance": np.mean((away - law.mean) ** 2, axis=1),
        "share_below": np.mean(away[..., None] < law.quantile(TENTHS), axis=1),
        "_edge_coordinate": xi,
    }


def _coordinate(setting: Setting, scaling: Any, number: int, stream: Any, bench: Bench) -> float:
    import numpy as np
    from scipy.linalg import eigh

    from rmt.arrays import to_host
    from rmt.attention.variants import CENTRED
    from rmt.ensembles.attention import KeyQueryAttention
    from rmt.ensembles.markov import MarkovAttention

    n = setting.n
    ensemble: Any
    if setting.model == "iid":
        ensemble = MarkovAttention(n=n, beta=setting.beta or 0.0, weights=setting.weights or "exponential")
    else:
        ensemble = KeyQueryAttention(n=n, head_dim=setting.head_dim or 64, beta=setting.beta or MILD)
    matrix = ensemble.matrix(
        stream,
        number,
        backend=bench.backend,
        dtype=bench.dtype,
        workers=bench.workers,
        memory_budget=bench.memory_budget,
    )
    X = CENTRED.alter(np.asarray(to_host(matrix.dense()), dtype=float))
    top = eigh(X @ X.T, eigvals_only=True, subset_by_index=[n - 1, n - 1], check_finite=False)[0]
    return float(scaling.standardise(n * top))


def predict(setting: Setting) -> dict[str, Any]:
    """What theory says of each quantity."""
    from rmt.theorems.edge_fluctuations import edge_predictions

    return dict(edge_predictions(_edge(setting)))


def claims(results: Results) -> list[Any]:
    """How the mean of xi approaches its limit, and the rival that has no correction."""
    from rmt.laws.tracy_widom import TracyWidom
    from rmt.statistics.claims import constant_claim, exponent_claim

    mean = TracyWidom(beta=1).mean
    found = []
    for group in dict.fromkeys(dataclasses.replace(s, n=256) for s in results.settings if s.model == "iid"):
        sizes = [s for s in results.settings if dataclasses.replace(s, n=256) == group and not _edge(s).limits()]
        if len(sizes) < 3 or abs(_edge(sizes[-1]).shift) < 0.05:
            continue
        x = [s.n for s in sizes]
        draws = [results.samples[s]["edge_coordinate"] for s in sizes]
        name = f"{group.weights} weights" + (f" of beta {group.beta:.3g}" if group.beta else "")
        found.append(
            constant_claim(
                f"{name}: xi has the mean of TW_1 without any correction",
                x,
                draws,
                predicted=mean,
                tolerance=0.1,
                expected="contradicted",
                statistic="mean",
                source="rival",
            )
        )
        if max(x) < SPAN * min(x):
            continue
        found.append(
            exponent_claim(
                f"{name}: the mean of xi approaches its limit like n^-1/3",
                x,
                [sample - mean for sample in draws],
                predicted=-1 / 3,
                tolerance=0.15,
                expected=None,
                statistic="mean",
                source="derived, see rmt.theorems.edge_fluctuations",
            )
        )
    return found


def summary(results: Results) -> str:
    """The mean of xi at the largest n, against the theory with and without its correction."""
    import numpy as np

    from rmt.laws.tracy_widom import TracyWidom

    mean, parts = TracyWidom(beta=1).mean, []
    largest = max(s.n for s in results.settings)
    for setting in results.where(n=largest):
        name = setting.weights or "key-query"
        seen = float(np.mean(results.samples[setting]["edge_coordinate"]))
        parts.append(f"{name} {seen:.2f} ({mean + _edge(setting).shift:.2f})")
    return f"At n = {largest} the edge sits, in Tracy-Widom units (theory; limit {mean:.2f}), at: {', '.join(parts)}."


def cost(setting: Setting, bench: Bench) -> Cost:
    """Rough time of one draw, a batch of Gram matrices and their largest eigenvalue, on one core."""
    n = setting.n
    return Cost(seconds=setting.batch * (5e-4 + 6e-10 * n**3), memory=40 * n * n + 10**7, least_memory=40 * n * n)


def figure(results: Results) -> Any:
    """The page of this experiment."""
    from simulations.pages.edge_fluctuations import page

    return page(results)


EXPERIMENT = Experiment(
    "edge_fluctuations",
    Setting,
    measure,
    predict,
    figure,
    sweep={"n": (96, 160, 256), "weights": ("uniform", "gamma", "exponential", "lognormal")},
    claims=claims,
    summary=summary,
    index={"share_below": "tenth"},
    headline=("edge_coordinate", "edge_variance"),
    spectra=("none",),
    devices=("cpu", "gpu"),
    cost=cost,
)

if __name__ == "__main__":
    raise SystemExit(run_experiment(EXPERIMENT))
