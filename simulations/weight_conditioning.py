"""Weight conditioning: kappa of attention projections as drawn and corrected, and what the correction does to the softmax.

Experiment: draw W_Q (and W_K, X for the softmax), add a correction C (shift I, SVD, orthogonal), measure the singular values of
    W + C, how much of a row of attention stays on the diagonal, and how far logits can still move it.
Theory: the edges of W + shift E with their Tracy-Widom correction; Edelman's law for square matrices below the transition
    shift = std sqrt(width); 2 kappa/(1 + kappa) for the SVD correction; Weyl's sufficient shift; E P_ii, entropy and
    1 - sum p^2 of a shifted head.
Figure: kappa against the shift with the law, and the diagonal weight against the shift with its law.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from rmt.experiments.cli import run_experiment
from rmt.experiments.experiment import Bench, Cost, Experiment, by_quantity
from rmt.experiments.setting import Meaningless, check_fields, choice, integer, real

if TYPE_CHECKING:
    from rmt.experiments.results import Results


@dataclasses.dataclass(frozen=True)
class Setting:
    """One projection and the attention of one head."""

    width: int = integer(768, "token width D: rows of the weight", at_least=2)
    head_dim: int = integer(64, "columns of the weight: one head, or the width for the fused matrix")
    shift: float | None = real(0.0, "lambda of the correction lambda I; the svd correction has none", at_least=0)
    correction: str = choice("shift", "what is added", ("shift", "svd", "orthogonal_shared", "orthogonal_independent"))
    scaling: str = choice("fan_in", "std 1/sqrt(D), or sqrt(2/(D + d))", ("fan_in", "xavier"))
    std: float | None = real(None, "standard deviation of the entries (that of the scaling)", above=0)
    weight_init: str = choice("gaussian", "law of the entries", ("gaussian", "uniform"))
    n: int = integer(256, "tokens of the attention matrix", at_least=2)

    def __post_init__(self) -> None:
        check_fields(self)
        if self.head_dim > self.width:
            raise Meaningless(f"head_dim {self.head_dim} > width {self.width}: a tall or square weight is needed")
        if self.correction == "svd":
            object.__setattr__(self, "shift", None)
        elif self.shift is None:
            object.__setattr__(self, "shift", 0.0)
        if self.std is None:
            fans = self.width if self.scaling == "fan_in" else (self.width + self.head_dim) / 2
            object.__setattr__(self, "std", 1 / math.sqrt(fans))

    @property
    def deviation(self) -> float:
        """std, filled in."""
        return self.std or 1.0

    @property
    def scale(self) -> float:
        """s = std sqrt(D): where the transition of a square matrix lies."""
        return self.deviation * math.sqrt(self.width)


def measure(setting: Setting, draws: range, stream: Any, bench: Bench) -> dict[str, Any]:
    """Singular values of W_Q and W_Q + C, and the softness of softmax attention at initialisation."""
    return by_quantity(_one_draw(setting, draw, stream) for draw in draws)


def _one_draw(setting: Setting, draw: int, stream: Any) -> dict[str, float]:
    import numpy as np

    from rmt.attention.corrections import Correction
    from rmt.attention.jacobian_draws import draw_projections, draw_tokens, normals
    from rmt.observables.conditioning import condition_number, diagonal_attention, softmax_sensitivity
    from rmt.observables.entries import attention_entropy

    width, columns = setting.width, setting.head_dim
    drawn = draw_projections(stream, draw, width, columns, 1, std=setting.deviation, init=setting.weight_init)
    correction = Correction(setting.correction, setting.shift or 0.0)
    here = stream.within(f"conditioning/width={width}/control")
    names = ("query", "query" if setting.correction == "orthogonal_shared" else "key")
    basis = [normals(here, name, draw, width, columns) if correction.needs_normals else None for name in names]
    query, key = (correction.conditioned(W, B) for W, B in zip((drawn.query, drawn.key), basis, strict=True))
    values = np.linalg.svd(query, compute_uv=False)
    plain = float(condition_number(drawn.query))
    X = draw_tokens(stream, draw, setting.n, width)
    scores = (X @ query) @ (X @ key).T / math.sqrt(columns)
    P = np.exp(scores - scores.max(axis=1, keepdims=True))
    P /= P.sum(axis=1, keepdims=True)
    kappa = float(values[0] / values[-1])
    return {
        "weight_condition_number": kappa,
        "largest_singular_value": float(values[0]),
        "smallest_singular_value": float(values[-1]),
        "condition_gain": plain / kappa,
        "diagonal_attention": float(diagonal_attention(P)),
        "attention_entropy": float(attention_entropy(P)),
        "softmax_sensitivity": float(softmax_sensitivity(P)),
        "_plain_condition": plain,
        "_plain_largest": float(np.linalg.norm(drawn.query, 2)),
    }


def predict(setting: Setting) -> dict[str, Any]:
    """What theory says of each quantity."""
    from rmt.theorems import conditioning
    from rmt.theorems.conditioning_saturation import saturation

    if setting.correction == "svd":
        return {"weight_condition_number": conditioning.svd_bound()}
    if setting.correction != "shift" and setting.shift:
        return {}  # a rotation of the shifted law, measured as a control
    width, columns, shift = setting.width, setting.head_dim, setting.shift or 0.0
    return {
        **conditioning.shifted_values(width, columns, std=setting.deviation, shift=shift),
        **saturation(setting.n, columns, scale=setting.scale, shift=shift),
    }


def cost(setting: Setting, bench: Bench) -> Cost:
    """Rough time of one draw on one core: the singular values, three products, and memory."""
    D, d, n = setting.width, setting.head_dim, setting.n
    seconds = 0.01 + (12.0 * D * d * d + 4.0 * n * D * d + 2.0 * n * n * d) / 8e9
    memory = 8 * (6 * D * d + 3 * n * n + 2 * n * D)
    return Cost(seconds=seconds, memory=memory, least_memory=memory)


def claims(results: Results) -> list[Any]:
    """The paper's statements on weights, and ours."""
    from simulations.claims.weight_conditioning import all_claims

    return all_claims(results)


def summary(results: Results) -> str:
    """What this means for a practitioner."""
    from simulations.claims.weight_conditioning import sentence

    return sentence(results)


def figure(results: Results) -> Any:
    """The page of this experiment."""
    from simulations.pages.weight_conditioning import page

    return page(results)


EXPERIMENT = Experiment(
    "weight_conditioning",
    Setting,
    measure,
    predict,
    figure,
    sweep={"head_dim": (64, 768), "shift": (0.0, 0.5, 1.0, 2.0, 5.0, 10.0), "correction": ("shift", "svd")},
    claims=claims,
    version=2,
    summary=summary,
    headline=("weight_condition_number", "diagonal_attention", "softmax_sensitivity"),
    spectra=("none",),
    cost=cost,
)

if __name__ == "__main__":
    raise SystemExit(run_experiment(EXPERIMENT))
