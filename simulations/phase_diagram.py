"""Phase diagram: which mechanism sets the second singular value of a softmax-attention layer at context length n.

Experiment: sample key-query attention at a few (n, beta) and ask of each draw how large s2 is, how many tokens share a
    row's weight, and whether a single pair of tokens carries s2 (`entry_share`: the largest squared entries of its two
    singular vectors, multiplied; 1 for one pair, about (2 ln n/n)^2 for a bulk).
Theory: five regimes in the plane (n, beta) at fixed d_k: iid, proportional, saturated, entry outlier, condensed
    (`rmt.theorems.phases`, analytic).
Figure: the map, one panel for each d_k, with the simulated points and well-known models at their context length and the
    logit deviation of their initialisation.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from rmt.experiments.cli import run_experiment
from rmt.experiments.experiment import Bench, Cost, Experiment, by_quantity
from rmt.experiments.setting import check_fields, integer, real

if TYPE_CHECKING:
    from rmt.experiments.results import Results

CARRIED = 0.1  # entry_share above which one pair of tokens carries s2
CLEAR = 0.15  # |Phase.entry| from which the map commits itself


@dataclasses.dataclass(frozen=True)
class Setting:
    """One layer of key-query attention over n tokens."""

    n: int = integer(1024, "context length", at_least=16)
    beta: float = real(1.0, "nominal standard deviation of the logits", above=0, at_most=1e4)
    head_dim: int = integer(64, "width d_k of queries and keys")

    def __post_init__(self) -> None:
        check_fields(self)


def measure(setting: Setting, draws: range, stream: Any, bench: Bench) -> dict[str, Any]:
    """Observables of each draw of A; the leading pair of singular vectors is that of A - 11^T/n."""
    return by_quantity(_one_draw(setting, draw, stream, bench) for draw in draws)


def _one_draw(setting: Setting, draw: int, stream: Any, bench: Bench) -> dict[str, float]:
    import numpy as np
    from scipy.sparse.linalg import LinearOperator, svds

    from rmt.arrays import CPU, to_host
    from rmt.ensembles.attention import KeyQueryAttention
    from rmt.kernels import kernels_for

    n = setting.n
    matrix = KeyQueryAttention(n=n, head_dim=setting.head_dim, beta=setting.beta).matrix(
        stream, draw, backend=bench.backend, dtype=bench.dtype, workers=bench.workers, memory_budget=bench.memory_budget
    )
    A = np.asarray(to_host(matrix.dense()), dtype=float)
    start = kernels_for(CPU).variates(stream.within("arnoldi").words("start", draw), 0, n, 1)[:, 0]
    centred = LinearOperator(
        (n, n),
        matvec=lambda v: A @ (v - v.mean()),
        rmatvec=lambda u: (A.T @ u) - (A.T @ u).mean(),
        dtype=np.float64,
    )
    left, values, right = svds(centred, k=1, v0=np.asarray(start, dtype=float))
    second = float(values[0])
    return {
        "second_singular_value": second,
        "participation": matrix.frobenius_norm_squared / n,
        "saturation": second * math.sqrt(setting.head_dim) / setting.beta,
        "entry_share": float(np.max(left**2) * np.max(right**2)),
    }


def predict(setting: Setting) -> dict[str, Any]:
    """Participation exactly; s2 and its ratio to beta/sqrt(d_k) where the width theory is calibrated."""
    from rmt.theorems.phases import phase_predictions

    return dict(phase_predictions(setting.n, setting.beta, setting.head_dim))


def claims(results: Results) -> list[Any]:
    """In each setting: does one pair of tokens carry s2? Expected where the map says "entry outlier" or "condensed"."""
    from rmt.statistics.claims import Claim
    from rmt.statistics.estimate import Estimate
    from rmt.theorems.phases import Phase

    found = []
    for setting, arrays in results.samples.items():
        phase = Phase(setting.n, setting.beta, setting.head_dim)
        estimate = Estimate.from_draws(arrays["entry_share"], "median")
        carried = phase.regime in ("entry outlier", "condensed")
        expected = None if abs(phase.entry) < CLEAR or phase.condensation >= 1 else "contradicted"
        if expected and carried:
            expected = "supported"
        ends = estimate.interval
        verdict = "undecided" if ends is None or ends[0] <= CARRIED <= ends[1] else "supported"
        if verdict == "supported" and ends is not None and ends[1] < CARRIED:
            verdict = "contradicted"
        found.append(
            Claim(
                f"n = {setting.n}, beta = {setting.beta:.3g}, d_k = {setting.head_dim}: one pair of tokens carries s2",
                "draw",
                None,
                estimate.value,
                ends,
                expected,
                verdict,
                "derived, see rmt.theorems.phases",
                f"regime: {phase.regime}; median share against {CARRIED:g}, 95 % interval",
            )
        )
    return found


def summary(results: Results) -> str:
    """The regimes met, in order of n and beta."""
    from rmt.theorems.phases import Phase

    met: dict[str, list[str]] = {}
    for setting in results.settings:
        regime = Phase(setting.n, setting.beta, setting.head_dim).regime
        met.setdefault(regime, []).append(f"({setting.n}, {setting.beta:.3g})")
    return "Regimes at (n, beta): " + "; ".join(f"{name} {', '.join(points)}" for name, points in met.items()) + "."


def cost(setting: Setting, bench: Bench) -> Cost:
    """Rough time of one draw on one core: about 60 products with A, and memory for two copies."""
    n = setting.n
    memory = 12 * n * n + 10**7
    return Cost(seconds=0.01 + 6e-8 * n * n, memory=memory, least_memory=memory)


def figure(results: Results) -> Any:
    """The page of this experiment."""
    from simulations.pages.phase_diagram import page

    return page(results)


EXPERIMENT = Experiment(
    "phase_diagram",
    Setting,
    measure,
    predict,
    figure,
    sweep={"n": (256, 1024), "beta": (0.3, 0.83, 1.5, 2.5, 4.0), "head_dim": (64,)},
    claims=claims,
    summary=summary,
    spectra=("none",),
    devices=("cpu", "gpu"),
    cost=cost,
)

if __name__ == "__main__":
    raise SystemExit(run_experiment(EXPERIMENT))
