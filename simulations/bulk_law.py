"""Bulk law: the whole spectrum of sqrt(n) (I - 11^T/n) A, or of a causal A, against its law.

Experiment: sample attention matrices with iid weights and with key-query logits, remove the mean over queries, and
    compare all their singular values with a law: Kolmogorov distance, deciles, moments, leading values.
Theory: quarter circle with the effective variance sigma_n^2 for iid weights; for key-query logits the typed law, whose
    low Hermite degrees have rank d_k, d_k (d_k + 1)/2, ..., so that the quarter circle is wrong at every n above d_k.
    Under a causal mask the law of information plus noise: a ladder of values of order one, and a bulk without an edge.
Figure: histogram with its law and the quarter circle as the rival; below it, the empirical cdf minus the law's, draw by
    draw, with the tolerated distance.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

from rmt.experiments.cli import run_experiment
from rmt.experiments.experiment import Bench, Cost, Experiment
from rmt.experiments.setting import Meaningless, check_fields, choice, integer, real

if TYPE_CHECKING:
    from rmt.experiments.results import Results

SQRT_LN2 = 0.8325546111576977  # beta for which the weights have standard deviation equal to their mean
LEADING = 8
NULL_SPECTRA = 99  # spectra of Gaussian matrices that a measured spectrum is ranked among
LAWS = {
    ("none", "iid"): "quarter circle",
    ("none", "keyquery"): "typed law",
    ("causal", "iid"): "causal law",
    ("causal", "keyquery"): "causal law",
}


@dataclasses.dataclass(frozen=True)
class Setting:
    """One layer of attention over n tokens."""

    n: int = integer(1024, "context length", at_least=16)
    model: str = choice("iid", "logits: independent, or queries times keys", ("iid", "keyquery"))
    beta: float | None = real(SQRT_LN2, "nominal standard deviation of the logits", above=0, at_most=1e4)
    weights: str | None = choice(
        "lognormal", "law of the iid weights", ("lognormal", "exponential", "uniform", "gamma")
    )
    head_dim: int | None = integer(64, "width d_k of queries and keys", at_least=2)
    mask: str = choice("none", "which keys a query sees", ("none", "causal"))

    def __post_init__(self) -> None:
        check_fields(self)
        iid = self.model == "iid"
        derived: dict[str, Any] = {"head_dim": None if iid else self.head_dim or 64}
        derived["weights"] = (self.weights or "lognormal") if iid else None
        light = derived["weights"] not in (None, "lognormal")
        derived["beta"] = None if light else self.beta or SQRT_LN2  # light weights have no temperature
        for name, value in derived.items():
            object.__setattr__(self, name, value)
        if (not iid or self.mask == "causal") and (self.beta or 0) > 6:
            raise Meaningless(f"beta = {self.beta:g}: this law is computed for beta <= 6; lower --beta")
        if light and self.mask == "causal":
            raise Meaningless(f"causal {derived['weights']} weights: no law; choose --weights lognormal or --mask none")


def bulk_of(setting: Setting) -> Any:
    """The theory of this setting."""
    from rmt.theorems.bulk import Bulk

    return Bulk(setting.n, setting.beta, setting.head_dim, setting.weights or "lognormal", setting.mask)


def measure(setting: Setting, draws: range, stream: Any, bench: Bench) -> dict[str, Any]:
    """The spectrum of each draw and its distance to the laws: of sqrt(n) (I - 11^T/n) A without its exact zero, or of A."""
    import numpy as np

    from rmt.statistics.distances import kolmogorov

    bulk = bulk_of(setting)
    spectra = np.array([_spectrum(setting, draw, stream, bench) for draw in draws])
    gaussian = setting.model == "iid" and setting.mask == "none"
    null = _gaussian_null(setting.n - 1, stream.within("null")) if gaussian else None
    tested = [null.test(one / bulk.layer.variance**0.5).combined if null else np.nan for one in spectra]
    return {
        "kolmogorov_distance": kolmogorov(spectra, bulk.law),
        "decile": np.quantile(spectra, np.arange(1, 10) / 10, axis=1, method="hazen").T,
        "mean_square": np.mean(spectra**2, axis=1),
        "mean_fourth_power": np.mean(spectra**4, axis=1),
        "leading_value": spectra[:, :LEADING],
        "_rival_distance": kolmogorov(spectra, bulk.rival),
        "_gaussian_p_value": np.array(tested),
        "_spectrum": spectra,
    }


@functools.lru_cache(maxsize=4)
def _gaussian_null(size: int, stream: Any) -> Any:
    """Spectra of Gaussian matrices of this size, against the quarter circle of variance one."""
    from rmt.ensembles.gaussian_spectra import square_gaussian_spectra
    from rmt.laws.quarter_circle import QuarterCircle
    from rmt.statistics.goodness import NullSpectra

    return NullSpectra.from_spectra(QuarterCircle(), square_gaussian_spectra(stream, NULL_SPECTRA, size))


def _spectrum(setting: Setting, draw: int, stream: Any, bench: Bench) -> Any:
    from rmt.arrays import to_host
    from rmt.attention.variants import CENTRED
    from rmt.ensembles.attention import KeyQueryAttention
    from rmt.ensembles.markov import MarkovAttention
    from rmt.linalg.full_spectrum import singular_values

    ensemble: Any
    if setting.model == "iid":
        ensemble = MarkovAttention(
            n=setting.n, beta=setting.beta or 0.0, weights=setting.weights or "lognormal", mask=setting.mask
        )
    else:
        ensemble = KeyQueryAttention(
            n=setting.n, head_dim=setting.head_dim or 64, beta=setting.beta or 0.0, mask=setting.mask
        )
    matrix = ensemble.matrix(
        stream, draw, backend=bench.backend, dtype=bench.dtype, workers=bench.workers, memory_budget=bench.memory_budget
    )
    if setting.mask == "causal":
        return singular_values(to_host(matrix.dense())).values  # tiny ones matter in ln s
    # The exact zero is known to 1e-7 from the Gram matrix, which is enough to leave it out.
    found = singular_values(CENTRED.alter(to_host(matrix.dense())), tolerance=1e-6)
    return found.values[:-1] * setting.n**0.5


def predict(setting: Setting) -> dict[str, Any]:
    """What the law says of each quantity."""
    from rmt.theorems.bulk import bulk_predictions

    return dict(bulk_predictions(bulk_of(setting)))


def claims(results: Results) -> list[Any]:
    """The quarter circle as a rival, and whether iid spectra pass for those of Gaussian matrices."""
    from simulations.claims.bulk_law import all_claims

    return all_claims(results)


def summary(results: Results) -> str:
    """The distances to the law and to its rival at the largest n, in one sentence."""
    import numpy as np

    largest = max(s.n for s in results.settings)
    parts = []
    for setting in results.where(n=largest):
        arrays = results.samples[setting]
        own, rival = (float(np.mean(arrays[name])) for name in ("kolmogorov_distance", "_rival_distance"))
        name = ("causal " if setting.mask == "causal" else "") + (
            f"iid {setting.weights}" if setting.model == "iid" else "key-query"
        )
        law = LAWS[setting.mask, setting.model]
        told = f"{name}: {law} {own:.2g}"
        parts.append(told if law == "quarter circle" else f"{told} (quarter circle {rival:.2g})")
    return f"At n = {largest}, Kolmogorov distances: " + "; ".join(dict.fromkeys(parts)) + "."


def cost(setting: Setting, bench: Bench) -> Cost:
    """Rough time of one draw on one core, a Gram matrix and its eigenvalues, and memory for four copies."""
    n = setting.n
    memory = 36 * n * n + 10**7
    return Cost(seconds=0.02 + 9e-11 * n**3, memory=memory, least_memory=memory)


def figure(results: Results) -> Any:
    """The page of this experiment."""
    from simulations.pages.bulk_law import page

    return page(results)


EXPERIMENT = Experiment(
    "bulk_law",
    Setting,
    measure,
    predict,
    figure,
    sweep={"n": (512, 1024), "model": ("iid", "keyquery")},
    claims=claims,
    summary=summary,
    index={"decile": "tenth", "leading_value": "rank"},
    headline=("kolmogorov_distance", "mean_square", "mean_fourth_power"),
    spectra=("none", "full"),
    devices=("cpu", "gpu"),
    cost=cost,
    version=2,
)

if __name__ == "__main__":
    raise SystemExit(run_experiment(EXPERIMENT))
