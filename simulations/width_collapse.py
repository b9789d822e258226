"""Width collapse: the two largest singular values of one softmax-attention layer, and what it does to tokens.

Experiment: sample attention matrices A over context lengths n, with iid logits (the theorists' model) and with
    key-query logits (what transformers compute), as they are and with the outlier 11^T/n removed; measure singular
    values, the gap, stable ranks and entropy of A, and the ranks of the tokens A V.
Theory: s1 -> 1. With iid logits s2 ~ 2 sigma_n/sqrt(n), or more where one large entry leaves the bulk; with key-query
    logits s2 tends to beta/sqrt(d_k), so the gap never opens fully. Kept, the outlier takes the rank of the tokens to
    one; removed, the rank grows like n.
Figure: s1 and s2 against n from 64 to 10^6 with theory bands; stable ranks kept against removed; with
    --spectrum full the histogram of singular values at the largest n with its law.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from rmt.experiments.cli import run_experiment
from rmt.experiments.experiment import Bench, Cost, Experiment
from rmt.experiments.setting import Meaningless, check_fields, choice, integer, real

if TYPE_CHECKING:
    from rmt.experiments.results import Results

SQRT_LN2 = math.sqrt(math.log(2.0))  # beta for which the weights have standard deviation equal to their mean
RANKS = 8  # leading singular values reported one by one when the whole spectrum is there


@dataclasses.dataclass(frozen=True)
class Setting:
    """One layer of attention over n tokens."""

    n: int = integer(1024, "context length")
    model: str = choice("iid", "logits: independent, or queries times keys", ("iid", "keyquery"))
    beta: float = real(SQRT_LN2, "nominal standard deviation of the logits", at_least=0)
    weights: str | None = choice("lognormal", "law of the iid weights", ("lognormal",))
    head_dim: int | None = integer(64, "width d_k of queries and keys")
    mask: str = choice("none", "which keys a query sees", ("none",))
    tokens: str = choice("independent", "value tokens: Gaussian, or with orthonormal rows", ("independent", "orthonormal"))
    width: int | None = integer(None, "token width d (the smaller of n and 1024)")
    value_width: int | None = integer(None, "columns of the value weights (the token width)")
    variant: str = choice("plain", "how the layer is altered", ("plain", "outlier_removed"))

    def __post_init__(self) -> None:
        check_fields(self)
        derived = {"width": self.width or min(self.n, 1024)}
        derived["value_width"] = self.value_width or derived["width"]
        derived |= {"head_dim": None} if self.model == "iid" else {"weights": None}  # so that duplicates merge
        if self.model == "keyquery" and self.head_dim is None:
            derived["head_dim"] = 64
        if self.model == "iid" and self.weights is None:
            derived["weights"] = "lognormal"
        for name, value in derived.items():
            object.__setattr__(self, name, value)
        if self.tokens == "orthonormal" and self.n > derived["width"]:
            raise Meaningless(f"n = {self.n} orthonormal tokens of width {self.width}: needs n <= width; raise --width")


def measure(setting: Setting, draws: range, stream: Any, bench: Bench) -> dict[str, Any]:
    """Observables of each draw."""
    import numpy as np

    records = [_one_draw(setting, draw, stream, bench) for draw in draws]
    return {name: np.array([record[name] for record in records]) for name in records[0]}


def _ensemble(setting: Setting) -> Any:
    from rmt.ensembles.attention import KeyQueryAttention
    from rmt.ensembles.markov import MarkovAttention

    if setting.model == "iid":
        return MarkovAttention(n=setting.n, beta=setting.beta, weights=setting.weights or "lognormal", mask=setting.mask)
    return KeyQueryAttention(n=setting.n, head_dim=setting.head_dim or 64, beta=setting.beta, mask=setting.mask)


def _one_draw(setting: Setting, draw: int, stream: Any, bench: Bench) -> dict[str, Any]:
    from rmt.attention.variants import variant
    from rmt.ensembles.tokens import value_tokens
    from rmt.observables.tokens import token_observables

    matrix = _ensemble(setting).matrix(
        stream, draw, backend=bench.backend, dtype=bench.dtype, workers=bench.workers, memory_budget=bench.memory_budget
    )
    altered = variant(setting.variant)
    record = _spectrum(setting, matrix, altered, stream, draw, bench)
    tokens = value_tokens(
        stream,
        draw,
        setting.n,
        setting.width,
        setting.value_width,
        tokens="orthonormal" if setting.tokens == "orthonormal" else "gaussian",
        backend=bench.backend,
        dtype=bench.dtype,
        workers=bench.workers,
    )
    return {**record, **token_observables(altered.tokens(matrix.apply(tokens), tokens))}
