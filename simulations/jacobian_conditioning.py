"""Jacobian conditioning: does kappa of the weights govern kappa of the Jacobian of attention? What does a correction do to it?

Experiment: draw one attention layer, condition its weights (shift, SVD, orthogonal controls), measure the singular values of its
    Jacobian with respect to W_Q, W_K, W_V: dense where small, matrix-free with certified bounds where large.
    Median kappa(J) [|J_Q|/|J_V|], 24 draws, n = 8, D = 16, layer-normed tokens:
        d   as drawn    svd           shift 0.5   1           2            5              10               svd, norm kept
        16  416 [1.7]   1.5e5 [7.7]   376 [1.9]   84 [2.4]    3.9 [0.31]   3.6 [8e-17]    3.6 [9e-75]      313 [1.7]
        4   43 [1.0]    987 [2.8]     68 [1.2]    81 [1.4]    895 [2.1]    2e6 [2.5]      singular (2/3)   43 [1.1]
    At kappa(W) = 1.29, norm kept, d = 16: identity 5.7, shared O 5.7, independent O 346, identity on values alone 394.
    At n = 512, D = 768, d = 64 (2 draws): 94 as drawn, 382 with svd, 9.6 [1e-76] with shift 10; kappa(P X) is 1e5 there.
    At n = 4096 (1 draw, 6.5 CPU minutes, 1.1 GB): an estimate of 133; n > D, so nothing certifies it from below.
Theory: sigma_min(J) = sigma_min(P X) where value_dim >= n, and a bound of kappa(J) by it; the bound of the paper's Theorem 3.4,
    which is infinite or violable; predictions that the weights enter through P alone.
Figure: kappa(J) by correction; kappa(J) against kappa(P X), draw by draw; |J_Q|/|J_V|: whether queries can learn.
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

CORRECTIONS = ("none", "shift", "svd", "orthogonal_shared", "orthogonal_independent")
SHIFTED = ("shift", "orthogonal_shared", "orthogonal_independent")
SINGULAR = 1e15  # a larger condition number is rounding
LARGEST_MATRIX = 1024  # tokens up to which kappa(P) itself is computed


@dataclasses.dataclass(frozen=True)
class Setting:
    """One attention layer at initialisation."""

    n: int = integer(8, "tokens", at_least=2)
    width: int = integer(16, "token width D", at_least=2)
    head_dim: int = integer(16, "query and key channels of a head")
    value_dim: int | None = integer(None, "value channels of a head (head_dim)")
    heads: int = integer(1, "heads side by side")
    attention: str = choice("softmax", "kind of attention", ("softmax", "xcit", "nystrom", "window"))
    mask: str = choice("none", "keys a query sees, softmax only", ("none", "causal"))
    window: int | None = integer(4, "tokens in a block of window attention")
    landmarks: int | None = integer(4, "landmarks of Nystrom attention")
    scores: str = choice("scaled", "scores times 1/sqrt(head_dim), or as they are", ("scaled", "plain"))
    tokens: str = choice("layernorm", "law of the tokens", ("layernorm", "gaussian"))
    correction: str = choice("none", "what is added to the weights", CORRECTIONS)
    shift: float | None = real(10.0, "lambda of the shift and of the orthogonal controls", at_least=0)
    norm: str | None = choice(None, "norm of W + C (free; preserved for orthogonal controls)", ("free", "preserved"))
    corrected: str | None = choice("qkv", "which projections", ("qkv", "qk", "v"))
    placement: str = choice("fused", "identity of the fused matrix, or of every head", ("fused", "per_head"))
    std: float | None = real(None, "standard deviation of the weights (1/sqrt(width))", above=0)

    def __post_init__(self) -> None:
        check_fields(self)
        derived: dict[str, Any] = {
            "value_dim": self.value_dim or self.head_dim,
            "std": self.std or self.width**-0.5,
            "window": (self.window or 4) if self.attention == "window" else None,
            "landmarks": (self.landmarks or 4) if self.attention == "nystrom" else None,
            "shift": (10.0 if self.shift is None else self.shift) if self.correction in SHIFTED else None,
            "norm": self.norm or ("preserved" if self.correction.startswith("orthogonal") else "free"),
        }
        if self.correction == "none":
            derived |= {"norm": "free", "corrected": "qkv"}
        for name, value in derived.items():
            object.__setattr__(self, name, value)
        if self.attention == "xcit" and self.value_dim != self.head_dim:
            raise Meaningless(f"value_dim {self.value_dim} != head_dim {self.head_dim}: xcit needs them equal")
        if self.mask != "none" and self.attention != "softmax":
            raise Meaningless(f"--mask {self.mask} with {self.attention} attention: only softmax has masks here")
        if self.attention == "nystrom" and (self.landmarks or 0) > self.n:
            raise Meaningless(f"{self.landmarks} landmarks of n = {self.n} tokens: needs landmarks <= n")

    @property
    def rank(self) -> int:
        """Rank of the tokens: layer norm removes one direction."""
        return min(self.n, self.width - (self.tokens == "layernorm"))

    @property
    def mixes(self) -> bool:
        """Whether attention is a row-stochastic matrix on the tokens."""
        return self.attention in ("softmax", "window")


def measure(setting: Setting, draws: range, stream: Any, bench: Bench) -> dict[str, Any]:
    """Extreme singular values of J, what bounds them, and how soft attention is; a singular J leaves kappa undefined."""
    return by_quantity(_one_draw(setting, draw, stream) for draw in draws)


def layer(setting: Setting, draw: int, stream: Any) -> Any:
    """The Jacobian of one drawn and conditioned layer."""
    from rmt.attention.corrections import Correction
    from rmt.attention.jacobian import Attention, AttentionJacobian
    from rmt.attention.jacobian_draws import Projections, draw_projections, draw_tokens, normals

    drawn = draw_projections(
        stream,
        draw,
        setting.width,
        setting.head_dim,
        setting.value_dim or setting.head_dim,
        heads=setting.heads,
        std=setting.std or 1.0,
    )
    preserved = setting.norm == "preserved"
    correction = Correction(setting.correction, setting.shift or 0.0, preserved, setting.heads, setting.placement)
    here = stream.within(f"conditioning/width={setting.width}/control")
    shared = setting.correction == "orthogonal_shared"
    fixed = []
    for which, W in (("query", drawn.query), ("key", drawn.key), ("value", drawn.value)):
        name = "query" if shared and which == "key" else which
        basis = normals(here, name, draw, *W.shape) if correction.needs_normals else None
        fixed.append(correction.conditioned(W, basis) if which[0] in (setting.corrected or "qkv") else W)
    attention = Attention(
        setting.attention,
        heads=setting.heads,
        scale=1.0 if setting.scores == "plain" else None,
        mask=setting.mask,
        window=setting.window or 1,
        landmarks=setting.landmarks or 1,
    )
    X = draw_tokens(stream, draw, setting.n, setting.width, kind=setting.tokens)
    return AttentionJacobian(X, Projections(*fixed), attention)


def _one_draw(setting: Setting, draw: int, stream: Any) -> dict[str, float]:
    import numpy as np

    from rmt.attention.jacobian_draws import normals
    from rmt.attention.jacobian_spectrum import jacobian_spectrum, needed_normals
    from rmt.observables.conditioning import condition_number

    jacobian = layer(setting, draw, stream)
    here = stream.within("conditioning/probe")
    seen = jacobian_spectrum(jacobian, start=normals(here, "start", draw, 1, needed_normals(jacobian)).ravel())
    weights = jacobian.weights
    record = {
        "jacobian_condition_number": seen.condition,
        "largest_singular_value": seen.largest,
        "smallest_singular_value": seen.smallest,
        "query_condition": float(condition_number(weights.query)),
        "key_condition": float(condition_number(weights.key)),
        "value_condition": float(condition_number(weights.value)),
        "query_share": seen.block_norms["query"] / seen.block_norms["value"],
        "token_condition": float(condition_number(jacobian.tokens)),
        "estimated": float(seen.method not in ("dense", "identity")),
    }
    if "gauge" in seen.null:
        G = normals(here, "gauge", draw, setting.heads * setting.head_dim, setting.head_dim)
        direction = jacobian.gauge_vector(np.split(G, setting.heads))
        record["gauge_residual"] = float(
            np.linalg.norm(jacobian.matvec(direction)) / np.linalg.norm(direction) / seen.largest
        )
    if setting.mixes:
        record |= _mixing(setting, jacobian, seen)
    return {name: value if abs(value) < SINGULAR else math.nan for name, value in record.items()}


def _mixing(setting: Setting, jacobian: Any, seen: Any) -> dict[str, float]:
    """What the attention matrices say: kappa(P X), kappa(P), the diagonal, and both bounds."""
    import numpy as np

    from rmt.observables.conditioning import (
        condition_number,
        diagonal_attention,
        softmax_pseudo_condition,
        softmax_sensitivity,
    )
    from rmt.theorems.conditioning_bounds import paper_bound

    matrices = [head.attention for head in jacobian.heads]
    record = {
        "diagonal_attention": float(np.mean([diagonal_attention(P) for P in matrices])),
        "softmax_sensitivity": float(np.mean([softmax_sensitivity(P) for P in matrices])),
    }
    if setting.n <= setting.rank:
        mixed = [float(condition_number(P @ jacobian.tokens)) for P in matrices]
        record |= {
            "mixed_token_condition": max(mixed),
            "condition_bound": seen.condition_bound,
            "smallest_over_mixed": seen.smallest / seen.mixed if seen.mixed > 0 else math.nan,
            "condition_over_bound": seen.condition / seen.condition_bound if seen.mixed > 0 else math.nan,
        }
    if setting.n <= LARGEST_MATRIX:
        record["attention_condition"] = max(float(condition_number(P)) for P in matrices)
        if setting.n <= setting.rank and setting.heads == 1:
            said = paper_bound(
                tokens=float(condition_number(jacobian.tokens)),
                softmax=softmax_pseudo_condition(matrices[0]),
                attention=record["attention_condition"],
                query=float(condition_number(jacobian.weights.query)),
                key=float(condition_number(jacobian.weights.key)),
                value=float(condition_number(jacobian.weights.value)),
            )
            record["condition_over_paper_bound"] = seen.condition / said
    return record


def predict(setting: Setting) -> dict[str, Any]:
    """What theory says of each quantity."""
    from rmt.theorems.conditioning import svd_bound
    from rmt.theorems.conditioning_bounds import gauge_bound, jacobian_predictions

    said: dict[str, Any] = (
        {"gauge_residual": gauge_bound()} if setting.attention in ("softmax", "window", "nystrom") else {}
    )
    if setting.mixes:
        said |= jacobian_predictions(n=setting.n, rank=setting.rank, value_dim=setting.value_dim or setting.head_dim)
    if setting.correction == "svd":
        touched = {"qkv": ("query", "key", "value"), "qk": ("query", "key"), "v": ("value",)}[
            setting.corrected or "qkv"
        ]
        said |= {f"{name}_condition": svd_bound() for name in touched}
    return said


def cost(setting: Setting, bench: Bench) -> Cost:
    """Rough time of one draw on one core: a dense decomposition, or about 700 products; and memory."""
    from rmt.attention.jacobian_spectrum import DENSE

    e = setting.value_dim or setting.head_dim
    rows, columns = setting.n * e, setting.rank * (2 * setting.head_dim + e)
    product = (12.0 * setting.n * columns + 8.0 * setting.n**2 * (setting.head_dim + e)) / 1e10 + 1e-4
    identity = setting.mixes and e >= setting.n and setting.n <= setting.rank
    dense = rows * columns <= DENSE
    seconds = setting.heads * (rows**2 * columns * 4 / 1e10 + 5e-3 if dense else product * (160 if identity else 700))
    memory = 8 * (3 * DENSE if dense else 30 * max(rows, columns) + 10 * setting.n**2 + 2**23 * 3)
    return Cost(seconds=seconds, memory=memory, least_memory=memory)


def claims(results: Results) -> list[Any]:
    """The paper's statements on the Jacobian, ours, and the counterexamples."""
    from simulations.claims.jacobian_conditioning import all_claims

    return all_claims(results)


def summary(results: Results) -> str:
    """What the corrections did to kappa(J)."""
    from simulations.claims.jacobian_conditioning import sentence

    return sentence(results)


def figure(results: Results) -> Any:
    """The page of this experiment."""
    from simulations.pages.jacobian_conditioning import page

    return page(results)


EXPERIMENT = Experiment(
    "jacobian_conditioning",
    Setting,
    measure,
    predict,
    figure,
    sweep={"correction": CORRECTIONS},
    claims=claims,
    summary=summary,
    headline=(
        "jacobian_condition_number",
        "condition_bound",
        "smallest_over_mixed",
        "mixed_token_condition",
        "query_condition",
        "query_share",
        "diagonal_attention",
    ),
    spectra=("none",),
    cost=cost,
)

if __name__ == "__main__":
    raise SystemExit(run_experiment(EXPERIMENT))
