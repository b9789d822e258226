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
MOST_OUTLIERS = 64
SMALLEST_EXCESS = 1e-300  # below this the excess is unknown; its logarithm goes on
ZERO = 1e-7  # a singular value below this is rounding: the ratios of a zero matrix are undefined


@dataclasses.dataclass(frozen=True)
class Setting:
    """One layer of attention over n tokens."""

    n: int = integer(1024, "context length")
    model: str = choice("iid", "logits: independent, or queries times keys", ("iid", "keyquery"))
    beta: float | None = real(SQRT_LN2, "nominal standard deviation of the logits", at_least=0)
    weights: str | None = choice(
        "lognormal", "law of the iid weights", ("lognormal", "exponential", "uniform", "gamma")
    )
    head_dim: int | None = integer(64, "width d_k of queries and keys")
    mask: str = choice("none", "which keys a query sees", ("none", "causal"))
    tokens: str = choice(
        "independent", "value tokens: Gaussian, or with orthonormal rows", ("independent", "orthonormal")
    )
    width: int | None = integer(None, "token width d (the smaller of n and 1024)")
    value_width: int | None = integer(None, "columns of the value weights (the token width)")
    variant: str = choice(
        "plain",
        "how the layer is altered; running_mean_removed is the repair under a causal mask",
        ("plain", "outlier_removed", "centred", "running_mean_removed"),
    )

    def __post_init__(self) -> None:
        check_fields(self)
        derived: dict[str, Any] = {"width": self.width or min(self.n, 1024)}
        derived["value_width"] = self.value_width or derived["width"]
        derived |= {"head_dim": None} if self.model == "iid" else {"weights": None}  # so that duplicates merge
        if self.model == "keyquery" and self.head_dim is None:
            derived["head_dim"] = 64
        if self.model == "iid" and self.weights is None:
            derived["weights"] = "lognormal"
        if self.model == "iid" and self.weights not in (None, "lognormal"):
            derived["beta"] = None  # these weights have no temperature
        elif self.beta is None:
            derived["beta"] = SQRT_LN2
        for name, value in derived.items():
            object.__setattr__(self, name, value)
        if self.variant == "running_mean_removed" and self.mask == "none":
            raise Meaningless("running_mean_removed without a causal mask: choose --mask causal, or outlier_removed")
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
        return MarkovAttention(
            n=setting.n, beta=setting.beta or 0.0, weights=setting.weights or "lognormal", mask=setting.mask
        )
    return KeyQueryAttention(n=setting.n, head_dim=setting.head_dim or 64, beta=setting.beta or 0.0, mask=setting.mask)


def _one_draw(setting: Setting, draw: int, stream: Any, bench: Bench) -> dict[str, Any]:
    from rmt.arrays import to_host
    from rmt.attention.variants import variant
    from rmt.ensembles.tokens import value_tokens

    matrix = _ensemble(setting).matrix(
        stream, draw, backend=bench.backend, dtype=bench.dtype, workers=bench.workers, memory_budget=bench.memory_budget
    )
    altered = variant(setting.variant)
    operator = altered.operate(matrix)
    record = _spectrum(setting, matrix, altered, operator, stream, draw, bench)
    tokens = value_tokens(
        stream,
        draw,
        setting.n,
        setting.width or setting.n,
        setting.value_width or setting.n,
        tokens="orthonormal" if setting.tokens == "orthonormal" else "gaussian",
        backend=bench.backend,
        dtype=bench.dtype,
        workers=bench.workers,
    )
    return {**record, **_tokens(to_host(operator.apply(tokens)))}


def _spectrum(
    setting: Setting, matrix: Any, altered: Any, operator: Any, stream: Any, draw: int, bench: Bench
) -> dict[str, Any]:
    """Singular values of the altered matrix, from the whole spectrum or by Lanczos, and what follows from them."""
    import numpy as np

    from rmt.linalg.full_spectrum import singular_values

    ladder = setting.mask != "none"  # no single value leads: the first eight are reported one by one
    record: dict[str, Any] = {}
    if bench.spectrum == "full":
        from rmt.arrays import to_host

        # A - 11^T/n has the exact null vector 1: its zero is known to 1e-7 s2 from the Gram matrix, which is enough here.
        values = singular_values(altered.alter(to_host(matrix.dense())), tolerance=1e-6).values
        record["_spectrum"] = values
        record["singular_value"] = np.pad(values[:RANKS], (0, max(0, RANKS - values.size)), constant_values=np.nan)
    else:
        guess = operator.column_sums if ladder or setting.variant == "plain" else None
        top = _leading(operator, stream, draw, count=RANKS if ladder else 2, start=guess)
        values = np.pad(top.values, (0, max(0, 2 - top.values.size)), constant_values=np.nan)
        record["_residual"] = (top.upper - top.lower) / 2
        record["_missed_above"] = top.missed_above
        if ladder:
            record["singular_value"] = np.pad(top.values, (0, RANKS - top.values.size), constant_values=np.nan)
    if ladder and setting.variant == "plain":
        record["outlier_count"] = _outliers(matrix, values, stream, draw)
    first, second = values[0], values[1] if setting.n > 1 else np.nan
    squared = operator.frobenius_norm_squared
    record |= {
        "top_singular_value": first,
        "second_singular_value": second,
        "spectral_gap": first - second,
        "gap_ratio": second / first if first > ZERO else np.nan,
        "frobenius_norm_squared": squared,
        "attention_stable_rank": squared / first**2 if first > ZERO else np.nan,
    }
    if setting.variant == "plain":
        record["attention_entropy"] = matrix.entropy
    return record


def _leading(operator: Any, stream: Any, draw: int, *, count: int, start: Any = None) -> Any:
    """The first singular values of an operator, by Lanczos from a random probe and a guess."""
    from rmt.arrays import CPU
    from rmt.kernels import kernels_for
    from rmt.linalg.top_singular import top_singular_values

    words = stream.within("lanczos").words("probe", draw)
    probe = kernels_for(CPU).variates(words, 0, operator.n, 1)
    top = top_singular_values(operator.gram_product, operator.n, probe=probe, count=count, start=start)
    if not top.converged:
        raise ArithmeticError(f"singular values at n = {operator.n}: {top.certificate}")
    return top


def _outliers(matrix: Any, values: Any, stream: Any, draw: int) -> float:
    """How many singular values of A exceed all of those that are left once its mean under the mask is removed.

    nan where nothing is left (beta = 0: no noise to stand out of) and where there are more than 64.
    """
    import numpy as np

    from rmt.attention.variants import RUNNING_MEAN_REMOVED
    from rmt.observables.spectrum import outlier_count

    edge = _leading(RUNNING_MEAN_REMOVED.operate(matrix), stream, draw, count=1).values[0]
    count = values.size
    if edge < ZERO and matrix.n > 1:
        return math.nan
    while values[-1] > edge and count < matrix.n:
        if count >= MOST_OUTLIERS:
            return math.nan
        count = min(2 * count, matrix.n)
        values = _leading(matrix, stream, draw, count=count, start=matrix.column_sums).values
    return float(outlier_count(np.asarray(values), edge))


def _tokens(X: Any) -> dict[str, Any]:
    """Ranks and sameness of the tokens after the layer."""
    from rmt.observables import tokens

    found = tokens.token_spectrum(X)
    excess = float(tokens.gram_stable_rank_excess(found))
    return {
        "token_stable_rank": float(tokens.token_stable_rank(found)),
        "gram_stable_rank": float(tokens.gram_stable_rank(found)),
        "gram_stable_rank_excess": excess if excess >= SMALLEST_EXCESS else math.nan,
        "log_gram_stable_rank_excess": float(tokens.log_gram_stable_rank_excess(found)),
        "effective_rank": float(tokens.effective_rank(found)),
        "token_cosine": float(tokens.token_cosine(X)),
        "rank_one_residual": float(tokens.rank_one_residual(X)),
    }


def predict(setting: Setting) -> dict[str, Any]:
    """What theory says of each quantity."""
    from rmt.experiments.setting import as_record
    from rmt.theorems.width import OneLayer, width_predictions

    return dict(width_predictions(OneLayer(**as_record(setting))))


def claims(results: Results) -> list[Any]:
    """How s2 falls with n: to beta/sqrt(d_k) with key-query logits, like n^-1/2 with iid logits, and not the other way."""
    from rmt.statistics.claims import exponent_claim, limit_claim

    found = []
    settings = [s for s in results.settings if s.mask == "none"]
    groups = {dataclasses.replace(s, n=1024, width=None, value_width=None) for s in settings}
    for group in sorted(groups, key=str):
        sizes = [s for s in settings if dataclasses.replace(s, n=1024, width=None, value_width=None) == group]
        light = group.beta is None
        if group.variant != "plain" or group.beta == 0 or len({s.n for s in sizes}) < 3:
            continue
        x, draws = [s.n for s in sizes], [results.samples[s]["second_singular_value"] for s in sizes]
        keyquery, head_dim = group.model == "keyquery", group.head_dim or 64
        label = f"iid {group.weights} weights"
        if not light:
            label = f"{group.model} logits, beta = {group.beta:.4g}" + (f", d_k = {head_dim}" if keyquery else "")
            found.append(
                limit_claim(
                    f"{label}: s2 tends to beta/sqrt({head_dim})",
                    x,
                    draws,
                    predicted=group.beta / math.sqrt(head_dim),
                    tolerance=0.15,
                    expected="supported" if keyquery else "contradicted",
                    source="derived, see rmt.laws.hermite",
                )
            )
        found.append(
            exponent_claim(
                f"{label}: s2 falls like n^-1/2",
                x,
                draws,
                predicted=-0.5,
                tolerance=0.05,
                expected="contradicted" if keyquery else "supported",
                source="nait-saada2024",
            )
        )
    return found


def summary(results: Results) -> str:
    """Theory, practice and the repair, in one sentence about the largest n."""
    import numpy as np

    n = max(s.n for s in results.settings)

    def median(quantity: str, **fields: Any) -> float | None:
        found = [results.samples[s][quantity] for s in results.where(n=n, **fields)]
        return float(np.nanmedian(np.concatenate(found))) if found and np.isfinite(found).any() else None

    parts = []
    iid, keyquery = (median("gap_ratio", model=model, variant="plain") for model in ("iid", "keyquery"))
    if iid is not None:
        parts.append(f"with iid logits, as in theory, the second singular value is {iid:.2g} of the first")
    if keyquery is not None:
        parts.append(f"with key-query logits, as in practice, it is {keyquery:.2g} of it")
    kept, removed = (median("token_stable_rank", variant=variant) for variant in ("plain", "outlier_removed"))
    if kept is not None and removed is not None:
        parts.append(f"removing the outlier raises the stable rank of the tokens from {kept:.3g} to {removed:.3g}")
    return (f"At n = {n} " + "; ".join(parts) + ".") if parts else ""


def cost(setting: Setting, bench: Bench) -> Cost:
    """Rough time of one draw on one core, from measured rates, and memory."""
    n, d, width = setting.n, setting.value_width or setting.n, setting.width or setting.n
    item = 8 if bench.dtype == "float64" else 4
    held = n * n * item
    flops = 2.0 * n * d * (n + width) + 4.0 * n * d * d + 8.0 * d**3
    seconds = 1e-3 + 40 * 0.3e-9 * n * n + flops / 60e9 + (n**3 * 6e-11 if bench.spectrum == "full" else 0)
    tokens = n * (2 * d + width) * item
    working = n * (64 * item + 1024) + tokens
    dense = 24 * n * n if bench.spectrum == "full" else 0
    least = working + dense + (held if dense else 0)
    return Cost(seconds=seconds, memory=working + held + dense, least_memory=least)


def figure(results: Results) -> Any:
    """The page of this experiment."""
    from simulations.pages.width_collapse import page

    return page(results)


EXPERIMENT = Experiment(
    "width_collapse",
    Setting,
    measure,
    predict,
    figure,
    sweep={"n": (256, 512, 1024), "model": ("iid", "keyquery"), "variant": ("plain", "outlier_removed")},
    claims=claims,
    summary=summary,
    index={"singular_value": "rank"},
    headline=(
        "top_singular_value",
        "second_singular_value",
        "gap_ratio",
        "attention_stable_rank",
        "token_stable_rank",
        "gram_stable_rank",
        "gram_stable_rank_excess",
    ),
    deterministic=lambda setting: False,
    cost=cost,
)

if __name__ == "__main__":
    raise SystemExit(run_experiment(EXPERIMENT))
