"""Softmax regression: a preconditioned descent with a spectral start against its rivals.

Experiment: train one softmax head on n Gaussian tokens with a linear target, by Algorithm 1 (spectral start, balancing
    regulariser, preconditioner) and by gradient descent, SGD, Adam, Shampoo and Muon on the same tuning budget; measure
    the population excess risk, and beside it the population descent, its rate and the constants around the minima.
    `--start spectral random --regularizer on off --optimizer preconditioned gd` is the ablation of the three ingredients.
Theory: rate (1 - s_d/s_1)^2 whatever the covariance; excess like 1/n with one context and about 1/n^2 with n contexts;
    the level of the excess and the distance of the spectral start from the minima in closed form; best balance tau.
Figure: excess against passes per optimiser; excess against n with its law; the population descent with its law; where
    every method ends.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from rmt.experiments.cli import run_experiment
from rmt.experiments.experiment import Bench, Cost, Experiment
from rmt.experiments.setting import Meaningless, check_fields, choice, integer, real, text

if TYPE_CHECKING:
    from rmt.experiments.results import Results

OPTIMIZERS = ("preconditioned", "renormalised", "gd", "sgd", "adam", "shampoo", "muon")


@dataclasses.dataclass(frozen=True)
class Setting:
    """One way to train a head of width d on n tokens."""

    n: int = integer(1000, "tokens per context")
    optimizer: str = choice("preconditioned", "how the head is trained", OPTIMIZERS)
    start: str | None = choice(None, "where it starts (spectral for Algorithm 1)", ("spectral", "random", "large"))
    regularizer: str | None = choice(None, "whether the factors are balanced (on for Algorithm 1)", ("on", "off"))
    contexts: str = choice("one", "one context of n tokens, or n of them", ("one", "n"))
    width: int = integer(4, "token width d")
    value_width: int | None = integer(None, "outputs p (d)")
    covariance: str = text("geometric", "token spectrum: geometric, power, or a .npy file of a covariance or of tokens")
    condition: float = real(10.0, "condition number of the covariance", at_least=1)
    target_condition: float = real(3.0, "condition number of the whitened target", at_least=1, at_most=1e11)
    largest: float = real(0.25, "largest singular value s_1 of the whitened target", above=0)
    noise: float = real(0.0, "standard deviation of the labels' noise", at_least=0)
    tau: float | None = real(None, "balance of the two factors (4 s_1)", above=0)
    rho: float = real(0.5, "weight of the balancing regulariser", above=0)
    rate: float | None = real(None, "multiple of the natural step (tuned)", above=0)
    passes: int = integer(150, "passes over the data")

    def __post_init__(self) -> None:
        check_fields(self)
        if self.covariance not in ("geometric", "power") and not self.covariance.endswith(".npy"):
            raise ValueError(f"--covariance {self.covariance}: must be geometric, power or the path of a .npy file")
        own = self.optimizer in ("preconditioned", "renormalised")
        derived = {
            "start": self.start or ("spectral" if own else "random"),
            "regularizer": self.regularizer or ("on" if own else "off"),
            "value_width": self.value_width or self.width,
            "tau": self.tau or 4 * self.largest,
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)
        if derived["value_width"] > self.width:  # type: ignore[operator]
            raise Meaningless(f"{self.value_width} outputs, tokens of width {self.width}: needs p <= d; raise --width")
        if self.n < self.width:
            raise Meaningless(f"n = {self.n} tokens of width {self.width}: needs n >= d; raise --n")
        if self.value_width == 1 and self.target_condition != 1:
            object.__setattr__(self, "target_condition", 1.0)
        _problem(self)  # a file that cannot be used is a usage error

    @property
    def singular_values(self) -> Any:
        """Singular values of the whitened target, in geometric progression."""
        import numpy as np

        return self.largest * np.geomspace(1, 1 / self.target_condition, self.outputs)

    @property
    def balance(self) -> float:
        """tau, filled in."""
        return self.tau or 4 * self.largest

    @property
    def outputs(self) -> int:
        """p, filled in."""
        return self.value_width or self.width

    @property
    def count(self) -> int:
        """How many contexts there are."""
        return self.n if self.contexts == "n" else 1


def _problem(setting: Setting) -> Any:
    from rmt.regression.softmax_problem import covariance_matrix, regression_problem

    covariance = covariance_matrix(setting.width, setting.covariance, setting.condition)
    return regression_problem(covariance, setting.singular_values, noise=setting.noise)


def measure(setting: Setting, draws: range, stream: Any, bench: Bench) -> dict[str, Any]:
    """Train once per draw, and descend the population beside it where a law says how that should go."""
    import numpy as np

    from simulations.records.softmax_population import population_record
    from simulations.records.softmax_training import training_record

    problem, records = _problem(setting), []
    for draw in draws:
        record = training_record(setting, problem, draw, stream)
        if setting.optimizer in ("preconditioned", "gd"):
            record |= population_record(setting, problem, draw, stream)
        records.append(record)
    return {name: np.array([record[name] for record in records]) for name in records[0]}


def predict(setting: Setting) -> dict[str, Any]:
    """What theory says of each quantity."""
    from rmt.theorems.softmax_predictions import population_predictions, training_predictions

    problem, found = _problem(setting), {}
    if setting.optimizer in ("preconditioned", "gd"):
        found = population_predictions(
            problem.covariance,
            problem.target,
            tau=setting.balance,
            preconditioned=setting.optimizer == "preconditioned",
            rho=setting.rho,
        )
    if setting.optimizer in ("preconditioned", "renormalised") and (setting.start, setting.regularizer) == (
        "spectral",
        "on",
    ):
        found |= training_predictions(
            setting.singular_values,
            width=setting.width,
            n=setting.n,
            tau=setting.balance,
            noise=setting.noise,
            contexts=setting.count,
        )
    return found


def cost(setting: Setting, bench: Bench) -> Cost:
    """Rough time of one draw on one core: 2.5 ns per attention entry and gradient at width 4, 0.14 ns more per column."""
    entry = (2 + 0.14 * setting.width) * 1e-9
    pilot = min(setting.n, 250) ** 2 * 6 if setting.count == 1 else 6 * 32**3
    parameters = setting.width * (setting.outputs + setting.width)
    sweeps = setting.passes + 20 + (2 * parameters if parameters <= 256 else 0)
    seconds = entry * (setting.count * setting.n**2 * sweeps + pilot * setting.passes) + 0.2
    memory = 8 * setting.n * (setting.count * 3 * setting.width + 64) + 10**7
    return Cost(seconds=seconds, memory=memory, least_memory=memory)


def claims(results: Results) -> list[Any]:
    """Scaling laws, comparisons, ingredients, and whether runs get stuck."""
    from simulations.claims.softmax_regression import all_claims

    return all_claims(results)


def summary(results: Results) -> str:
    """How the optimisers end at the largest n, in one sentence."""
    from simulations.claims.softmax_regression import sentence

    return sentence(results)


def figure(results: Results) -> Any:
    """The page of this experiment."""
    from simulations.pages.softmax_regression import page

    return page(results)


EXPERIMENT = Experiment(
    "softmax_regression",
    Setting,
    measure,
    predict,
    figure,
    sweep={"n": (250, 500, 1000), "optimizer": ("preconditioned", "gd", "sgd", "adam", "shampoo", "muon")},
    claims=claims,
    summary=summary,
    version=2,
    headline=("excess_risk", "population_steps_over_law", "population_rate", "diverged_at_step"),
    cost=cost,
)

if __name__ == "__main__":
    raise SystemExit(run_experiment(EXPERIMENT))
