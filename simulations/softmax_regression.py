"""Softmax regression: a preconditioned descent with a spectral start against its rivals.

Experiment: train one softmax head on n Gaussian tokens with a linear target, by Algorithm 1 (spectral start, balancing
    regulariser, preconditioner) and by gradient descent, SGD, Adam, Shampoo and Muon on the same tuning budget; measure
    the population excess risk, and beside it the population descent, its rate and the constants around the minima.
    `--start spectral random --regularizer on off --optimizer preconditioned gd` is the ablation of the three ingredients.
Theory: rate (1 - s_d/s_1)^2 whatever the covariance; excess like 1/n with one context and about 1/n^2 with n contexts;
    the level of the excess and the distance of the spectral start from the minima in closed form; best balance tau.
Figure: excess against passes per optimiser; excess against n with its law.
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
PILOT = 250  # tokens of the sample on which learning rates are tuned
DISPLACEMENT = 3e-3  # of sqrt(s_1): start of the population descent, per entry
TOLERANCE = 1e-10  # excess at which its steps are counted
PROMPTS, QUERIES = 8, 200  # fresh contexts, and queries in each
LONGEST = 40_000  # steps of the population descent


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
    covariance: str = text("geometric", "token spectrum: geometric, power or a .npy file")
    condition: float = real(10.0, "condition number of the covariance", at_least=1)
    target_condition: float = real(3.0, "condition number of the whitened target", at_least=1)
    largest: float = real(0.25, "largest singular value s_1 of the whitened target", above=0)
    noise: float = real(0.0, "standard deviation of the labels' noise", at_least=0)
    tau: float | None = real(None, "balance of the two factors (4 s_1)", above=0)
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
    """Train once per draw; see `_train` and `_population` for what is recorded."""
    import numpy as np

    problem = _problem(setting)
    records = []
    for draw in draws:
        record = _train(setting, problem, draw, stream)
        if setting.optimizer in ("preconditioned", "gd"):
            record |= _population(setting, problem, draw, stream)
        records.append(record)
    return {name: np.array([record[name] for record in records]) for name in records[0]}


def _train(setting: Setting, problem: Any, draw: int, stream: Any) -> dict[str, Any]:
    """The final state, why it stands there, what the spectral start was worth, and the law given these tokens.

    A run that diverges keeps its step and nothing else. `_curve` is the excess after every pass. The start has failed
    when it lies farther than sqrt(s_d)/2 from the minima, where one-point convexity is lost.
    """
    import numpy as np

    from rmt.regression.softmax_descent import algorithm_one, run
    from rmt.regression.softmax_draws import draw_contexts, token_normals
    from rmt.regression.softmax_empirical import EmpiricalRisk
    from rmt.regression.softmax_landscape import standstill
    from rmt.regression.softmax_population import distance_to_minima, excess_risk
    from rmt.regression.softmax_start import spectral_start
    from rmt.regression.softmax_training import Method, train, train_at
    from rmt.theorems.softmax_contexts import learned_excess_given_tokens

    data = draw_contexts(problem, stream, draw, setting.n, contexts=setting.count)
    method = Method(setting.optimizer, str(setting.start), setting.regularizer == "on", setting.balance, setting.passes)
    if setting.rate is None:
        size = min(setting.n, PILOT if setting.count == 1 else 32)
        pilot = draw_contexts(problem, stream, draw, size, contexts=min(setting.count, size), name="pilot")
        training = train(method, data, pilot, stream, draw, problem=problem)
    else:
        training = train_at(method, setting.rate, data, stream, draw, problem=problem)
    last, nothing = training.last, float("nan")
    goal = run(algorithm_one(data, tau=setting.balance, step="fast", problem=problem), 20).excess or 0.0
    record = {
        "excess_risk": nothing,
        "prompt_error": nothing,
        "empirical_risk": nothing,
        "score_norm": nothing,
        "value_norm": nothing,
        "slow": nothing,
        "saddle": nothing,
        "spurious_minimum": nothing,
        "converged": nothing,
        "final_gradient_norm": nothing,
        "least_curvature": nothing,
        "diverged_at_step": nothing if last.diverged_at is None else float(last.diverged_at),
        "_curve": training.curve,
        "_rate": training.rate,
        "_goal": goal,
    }
    if last.diverged_at is None:
        risk = EmpiricalRisk(data)
        seen = standstill(risk, problem, last.weights, excess=last.excess or 0.0, goal=goal, tau=setting.balance)
        record |= {
            "excess_risk": last.excess,
            "empirical_risk": risk.value(last.weights),
            "score_norm": last.score_norm,
            "value_norm": last.value_norm,
            **{
                name: float(seen.verdict == name.replace("_", " "))
                for name in ("slow", "saddle", "spurious_minimum", "converged")
            },
            "final_gradient_norm": seen.gradient_norm,
            "least_curvature": seen.least_curvature,
        }
        record["prompt_error"] = _prompt_error(setting, problem, last.weights, draw, stream)
    if setting.start == "spectral":
        start = spectral_start(data, tau=setting.balance)
        record["start_excess"] = excess_risk(problem, start)
        distance = distance_to_minima(problem, start, tau=setting.balance)
        record["start_distance_squared"] = distance**2
        record["start_failed"] = float(distance > 0.5 * np.sqrt(problem.singular_values[-1]))
    tokens = token_normals(stream, draw, setting.n, setting.width, contexts=setting.count)
    error = (data.least_squares().target - problem.target) @ problem.root
    given = learned_excess_given_tokens(tokens, problem.whitened_target, tau=setting.balance, label_error=error)
    record["given_draw:excess_risk"] = nothing if given is None else given
    return {name: np.asarray(value, float) for name, value in record.items()}


def _prompt_error(setting: Setting, problem: Any, weights: Any, draw: int, stream: Any) -> float:
    """1/2 E|M x - f(x)|^2 over fresh queries in fresh contexts of n tokens, by Monte Carlo."""
    from rmt.regression.softmax_draws import token_normals
    from rmt.regression.softmax_population import sampled_risk

    contexts, queries = (
        token_normals(stream, draw, count, setting.width, contexts=PROMPTS, name=name) @ problem.root
        for count, name in ((setting.n, "fresh"), (QUERIES, "asked"))
    )
    return sampled_risk(problem, weights, contexts, queries)


def _population(setting: Setting, problem: Any, draw: int, stream: Any) -> dict[str, Any]:
    """The same descent on the population, from a small displacement off a minimum: steps, late rate, constants."""
    from itertools import islice

    import numpy as np

    from rmt.regression.softmax_balance import Balanced
    from rmt.regression.softmax_descent import descent, full_batch
    from rmt.regression.softmax_draws import draw_weights
    from rmt.regression.softmax_landscape import one_point_constants
    from rmt.regression.softmax_objective import hessian
    from rmt.regression.softmax_population import PopulationRisk, minimiser
    from rmt.regression.softmax_rules import GradientDescent, Preconditioned
    from rmt.theorems.softmax_regression import linear_descent

    own = setting.optimizer == "preconditioned"
    largest, tau = setting.largest, setting.balance
    normals = draw_weights(stream, draw, setting.width, setting.outputs, name="displacement").vector()
    displacement = DISPLACEMENT * np.sqrt(largest) * normals
    point = minimiser(problem, tau=tau)
    moved = point.like(displacement)
    moved = type(moved)(np.sqrt(tau) * moved.value, moved.score / np.sqrt(tau))
    objective = Balanced(PopulationRisk(problem), problem.covariance, tau)
    if own:
        rule: Any = Preconditioned(problem, 1 / (2 * largest), tau)
    else:
        rule = GradientDescent(1 / np.linalg.eigvalsh(hessian(objective, point))[-1])
    law = linear_descent(problem.covariance, problem.target, preconditioned=own, displacement=displacement, tau=tau)
    predicted = law.steps_to(TOLERANCE, limit=LONGEST)
    steps = float("nan")
    rates: list[float] = []
    states = descent(rule, full_batch(objective), point + problem.unwhiten(moved), problem=problem)
    for state in islice(states, LONGEST + 1):
        assert state.excess is not None
        if np.isnan(steps) and state.excess <= TOLERANCE:
            steps = float(state.step)
        if not np.isnan(steps):
            rates.append(state.rate or 0.0)
            if not own or state.excess < 1e-22:
                break
    record = {
        "population_steps": steps,
        "given_draw:population_steps": predicted if predicted is not None else np.nan,
        "population_steps_over_law": steps / predicted if predicted else np.nan,
        "population_condition": law.condition,
    }
    if own:
        record["population_rate"] = float(np.exp(np.mean(np.log(rates[-5:]))))
        constants = one_point_constants(objective, problem, normals, radius=DISPLACEMENT * np.sqrt(largest), tau=tau)
        record |= {"one_point_convexity": constants.convexity, "one_point_smoothness": constants.smoothness}
    return {name: np.asarray(value, float) for name, value in record.items()}


def predict(setting: Setting) -> dict[str, Any]:
    """What theory says of each quantity."""
    from rmt.theorems.softmax_predictions import softmax_regression_predictions

    return dict(
        softmax_regression_predictions(
            setting.singular_values,
            width=setting.width,
            n=setting.n,
            tau=setting.balance,
            noise=setting.noise,
            optimizer=setting.optimizer,
            start=str(setting.start),
            regularized=setting.regularizer == "on",
            contexts=setting.count,
        )
    )


def cost(setting: Setting, bench: Bench) -> Cost:
    """Rough time of one draw on one core: 5 ns per attention entry and gradient at width 4, 0.25 ns more per column."""
    entry = (4 + 0.25 * setting.width) * 1e-9
    pilot = min(setting.n, PILOT) ** 2 * 6 if setting.count == 1 else 6 * 32**3
    sweeps = setting.passes + 20 + 2 * setting.width**2
    seconds = entry * (setting.count * setting.n**2 * sweeps + pilot * setting.passes) + 0.2
    memory = 8 * setting.n * (setting.count * 3 * setting.width + 64) + 10**7
    return Cost(seconds=seconds, memory=memory, least_memory=memory)


def claims(results: Results) -> list[Any]:
    """Scaling laws, comparisons, ingredients, and whether runs get stuck."""
    from simulations.pages.softmax_regression_claims import all_claims

    return all_claims(results)


def summary(results: Results) -> str:
    """How the optimisers end at the largest n, in one sentence."""
    from simulations.pages.softmax_regression_claims import sentence

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
    headline=("excess_risk", "population_steps_over_law", "population_rate", "diverged_at_step"),
    cost=cost,
)

if __name__ == "__main__":
    raise SystemExit(run_experiment(EXPERIMENT))
