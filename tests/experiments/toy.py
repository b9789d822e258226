"""Toy: means of normal draws. (an experiment of one's own, small enough to test the machinery)

Experiment: the mean and the largest of n normal numbers. Theory: the mean is 0. Figure: none.
"""

import dataclasses
import os
import time

import numpy as np

from rmt.experiments.cli import run_experiment
from rmt.experiments.experiment import Experiment
from rmt.experiments.setting import Meaningless, check_fields, choice, integer, real
from rmt.statistics.claims import Claim
from rmt.theorems.prediction import Approximation


@dataclasses.dataclass(frozen=True)
class Setting:
    """A sample size and a spread."""

    n: int = integer(64, "numbers in a draw")
    spread: float = real(1.0, "standard deviation", at_least=0)
    model: str = choice("normal", "law of the numbers", ("normal", "flat", "broken"))

    def __post_init__(self):
        check_fields(self)
        if self.model == "flat" and self.n > 100:
            raise Meaningless(f"flat numbers with n = {self.n}: flat needs n <= 100")


def measure(setting, draws, stream, bench):
    """Sample each draw from its own generator; TOY_SLEEP slows it down, TOY_FAIL_DRAW fails one draw."""
    means, ranks = [], []
    for draw in draws:
        time.sleep(float(os.environ.get("TOY_SLEEP", "0")))
        if setting.model == "broken" and str(draw) == os.environ.get("TOY_FAIL_DRAW", str(draw)):
            raise RuntimeError(f"draw {draw} is broken")
        generator = np.random.Generator(np.random.Philox(key=stream.seed * 1_000_003 + draw))
        values = setting.spread * generator.standard_normal(setting.n)
        means.append(values.mean())
        ranks.append(np.sort(values)[::-1][:2])
    return {"mean": np.array(means), "ranked": np.array(ranks), "_raw": np.array(ranks)}


def predict(setting):
    """The mean is 0 within a twentieth of the spread, or the draws are too few to say."""
    return {
        "mean": Approximation(
            value=0.0,
            band=(-0.5 * setting.spread - 1e-9, 0.5 * setting.spread + 1e-9),
            statistic="mean",
            source="law of large numbers",
            standing="theorem",
            validity="any n",
        )
    }


def claims(results):
    """One claim of each kind of outcome."""
    measured = float(np.mean([np.mean(arrays["mean"]) for arrays in results.samples.values()]))
    return [
        Claim(
            claim="the mean is not 7",
            along="n",
            predicted=0.0,
            measured=measured,
            interval=None,
            expected="supported",
            verdict="supported" if measured < 7 else "contradicted",
            source="arithmetic",
            detail="",
        )
    ]


EXPERIMENT = Experiment(
    "toy",
    Setting,
    measure,
    predict,
    sweep={"n": (16, 64)},
    claims=claims,
    summary=lambda results: "The mean of many numbers is small.",
    index={"ranked": "rank"},
    deterministic=lambda setting: setting.spread == 0,
)

if __name__ == "__main__":
    raise SystemExit(run_experiment(EXPERIMENT))
