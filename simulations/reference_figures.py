"""Reference figures: the published figures of *Mind the Gap* drawn again, at their sizes and at larger ones.

Experiment: --panels VII and so on (rebuttal numbering): eigenvalues of attention in random language models (I to IV) and
    over Gaussian tokens (IX); Gram stable rank of a random RoBERTa (V, VI), along depth in nine configurations (VII), and
    of A(X) kept and removed (X, XI); gradient norms of A(X) (VIII). Random weights throughout; the module
    `simulations.networks.published` lists the traps of the public code.
Theory: one eigenvalue at 1, the rest within sigma/sqrt(n); ranks of Fuss-Catalan order l (identity) and 2 l (removed);
    gradients of constant attention, d^L.
Figure: a panel each, theory as lines, numbers read off the publication as claims.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from rmt.experiments.cli import run_experiment
from rmt.experiments.experiment import Bench, Cost, Experiment, by_quantity
from rmt.experiments.setting import check_fields, choice
from simulations.networks import published

if TYPE_CHECKING:
    from rmt.experiments.results import Results

EIGENVALUES = ("I", "II", "III", "IV", "IX")


@dataclasses.dataclass(frozen=True)
class Setting:
    """One published figure."""

    panels: str = choice("VII", "which figure", published.PANELS)
    size: str = choice("paper", "context lengths: the publication's, or larger ones", ("paper", "ours"))

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Context lengths of the figure."""
        return published.SIZES[self.panels, self.size]


def measure(setting: Setting, draws: range, stream: Any, bench: Bench) -> dict[str, Any]:
    """The curves of one figure, one quantity a curve."""
    one = {"V": _language, "VI": _language, "VII": _nine, "VIII": _gradients, "X": _looking, "XI": _looking}.get(
        setting.panels, _eigenvalues
    )
    return by_quantity(one(setting, stream, draw) for draw in draws)


def _nine(setting: Setting, stream: Any, draw: int) -> dict[str, Any]:
    (n,) = setting.sizes
    found: dict[str, Any] = {}
    for name, fields in published.NINE.items():
        found[f"gram_stable_rank, {name}"] = _ranks(published.fixed_network(n, fields), stream, draw)
    return found


def _ranks(network: Any, stream: Any, draw: int, depth: int = published.LAYERS) -> Any:
    """Gram stable rank after every layer."""
    import numpy as np

    from rmt.observables.collapse import split_spectrum
    from rmt.observables.tokens import gram_stable_rank

    layers = network.layers(stream, draw, depth)
    return np.array([float(gram_stable_rank(split_spectrum(X))) for _, X in layers])


def _looking(setting: Setting, stream: Any, draw: int) -> dict[str, Any]:
    variant = "plain" if setting.panels == "X" else "outlier_removed"
    return {
        f"gram_stable_rank, n = {n}": _ranks(published.looking_network(n, variant), stream, draw) for n in setting.sizes
    }


def _language(setting: Setting, stream: Any, draw: int) -> dict[str, Any]:
    return {
        f"gram_stable_rank, {variant}, n = {n}": _ranks(
            published.language_network(setting.panels, n, variant, stream, draw), stream, draw, 12
        )
        for variant in ("plain", "outlier_removed")
        for n in setting.sizes
    }


def _gradients(setting: Setting, stream: Any, draw: int) -> dict[str, Any]:
    import numpy as np

    from rmt.attention.gradient_norms import factorised_norms, probed_norms

    found: dict[str, Any] = {}
    for variant in ("plain", "outlier_removed"):
        for n in setting.sizes:
            network = published.looking_network(n, variant)
            squares = probed_norms(network, stream, draw, 2, probes=4)["value"].mean(axis=0)
            found[f"log_gradient_norm_squared, A(X) {variant}, n = {n}"] = math.log(float(squares[0]))
            fixed = published.fixed_network(n, {"variant": variant})
            logs = factorised_norms(fixed, stream, draw, 2, weight_draws=4)[:, 0]
            found[f"log_gradient_norm_squared, A {variant}, n = {n}"] = float(np.log(np.mean(np.exp(logs))))
    return found


def _eigenvalues(setting: Setting, stream: Any, draw: int) -> dict[str, Any]:
    import numpy as np

    found: dict[str, Any] = {}
    cases: list[tuple[str, Any]] = []
    for n in setting.sizes:
        if setting.panels == "IX":
            ratios = published.RATIOS if n <= 400 else (2.0, 10.0)  # wide tokens at n = 800 are large and look alike
            cases += [(f"n = {n}, n/d = {r:g}", published.gaussian_attention(n, r, stream, draw)) for r in ratios]
        else:
            cases.append((f"n = {n}", published.model_attention(setting.panels, n, stream, draw)))
            if setting.panels == "III":
                network = published.language_network("III", n, "plain", stream, draw)
                found[f"gram_stable_rank, n = {n}"] = float(_ranks(network, stream, draw, 1)[0])
    for name, matrix in cases:
        values = np.linalg.eigvals(matrix)
        values = values[np.argsort(-np.abs(values))]
        bulk = values[1:]
        found[f"top_eigenvalue, {name}"] = float(values[0].real)
        found[f"second_eigenvalue_modulus, {name}"] = float(np.abs(bulk[0]))
        found[f"elongation, {name}"] = _elongation(bulk)
        found[f"_eigenvalues, {name}"] = np.stack([values.real, values.imag])
        if setting.panels == "IV":
            found[f"distance_to_diagonal, {name}"] = _distance_to_diagonal(matrix, values)
    return found


def _elongation(bulk: Any) -> float:
    """Standard deviation along the real axis over that along the imaginary axis; nan for a real spectrum."""
    import numpy as np

    across = float(np.std(bulk.imag))
    return float(np.std(bulk.real)) / across if across > 1e-9 else math.nan


def _distance_to_diagonal(matrix: Any, values: Any) -> float:
    """Largest distance between the sorted eigenvalues of a causal matrix and its sorted diagonal."""
    import numpy as np

    return float(np.max(np.abs(np.sort(values.real) - np.sort(np.diag(matrix)))))


def predict(setting: Setting) -> dict[str, Any]:
    """Ranks of removed attention (VII), and the largest eigenvalue, which is one."""
    from rmt.theorems.depth import depth_predictions
    from rmt.theorems.prediction import Exact

    found: dict[str, Any] = {}
    if setting.panels == "VII":
        (n,) = setting.sizes
        words = {"model": "iid", "n": n, "width": n, "value_width": n, "beta": published.SQRT_LN2, "head_dim": None}
        for name, variant in (("A removed", "outlier_removed"), ("A", "plain")):
            along = depth_predictions(**words, depth=published.LAYERS, variant=variant)  # type: ignore[arg-type]
            found[f"gram_stable_rank, {name}"] = along["gram_stable_rank"]
    if setting.panels in EIGENVALUES:
        one = Exact(
            value=1.0, band=(1 - 1e-6, 1 + 1e-6), source="Perron and Frobenius", validity="every row sums to one"
        )
        ratios = published.RATIOS
        for n in setting.sizes:
            names = [f"n = {n}, n/d = {r:g}" for r in ratios] if setting.panels == "IX" else [f"n = {n}"]
            found |= {f"top_eigenvalue, {name}": one for name in names}
    return found


def claims(results: Results) -> list[Any]:
    """Numbers read off the publication, and what theory says of the curves."""
    from simulations.claims.reference_figures import judged

    return judged(results)


def summary(results: Results) -> str:
    """How many numbers read off agree."""
    found = [claim["verdict"] for claim in results.claims if claim["source"].endswith("rebuttal figures")]
    if not found:
        return ""
    agree, against = found.count("supported"), found.count("contradicted")
    return f"Of {len(found)} numbers read off the published figures {agree} are supported and {against} contradicted."


def cost(setting: Setting, bench: Bench) -> Cost:
    """From measured times, one core."""
    n = max(setting.sizes)
    seconds = {"VII": 90 * 3e-9, "VIII": 60 * 3e-9, "X": 25 * 3e-9, "XI": 25 * 3e-9, "IX": 40e-9}
    if setting.panels in ("V", "VI"):
        memory = 8 * (20 * n * 3072 + 4 * 768 * 3072 + 4 * n * n)
        return Cost(seconds=len(setting.sizes) * n * 0.04, memory=memory, least_memory=memory)
    rough = seconds.get(setting.panels, 30e-9) * n**2.7 + 0.1
    return Cost(seconds=rough, memory=200 * n * n, least_memory=200 * n * n)


def figure(results: Results) -> Any:
    """One panel a figure."""
    from simulations.pages.reference_figures import page

    return page(results)


NAMES = (
    *(f"gram_stable_rank, {name}" for name in published.NINE),
    *(
        f"gram_stable_rank, {variant}, n = {n}"
        for variant in ("plain", "outlier_removed")
        for panel in ("V", "VI")
        for size in ("paper", "ours")
        for n in published.SIZES[panel, size]
    ),
    *(f"gram_stable_rank, n = {n}" for sizes in published.SIZES.values() for n in sizes),
)
EXPERIMENT = Experiment(
    "reference_figures",
    Setting,
    measure,
    predict,
    figure,
    sweep={"panels": ("II", "IV", "VII", "VIII", "X", "XI")},
    claims=claims,
    summary=summary,
    index=dict.fromkeys(NAMES, "layer"),
    spectra=("none",),
    cost=cost,
)

if __name__ == "__main__":
    raise SystemExit(run_experiment(EXPERIMENT))
