"""Width collapse: the two largest singular values of one softmax-attention layer, and what it does to tokens.

Experiment: sample attention matrices A over context lengths n, with iid logits (the theorists' model) and with
    key-query logits (what transformers compute), as they are and repaired; measure singular values, the gap,
    eigenvalues, stable ranks and entropy of A, and the ranks of the tokens A V. Tokens may be shared by queries, keys
    and values; masks, positions, caps, norms, sinks, weight laws and other attention functions are flags.
Theory: s1 -> 1. With iid logits s2 ~ 2 sigma_n/sqrt(n), or more where one large entry leaves the bulk; with key-query
    logits s2 tends to beta/sqrt(d_k), so the gap never opens fully. Kept, the outlier takes the rank of the tokens to
    one; removed, the rank grows like n. Under a causal mask there is a ladder of ~ln n large values instead.
Figure: s1 and s2 against n from 64 to 10^6 with theory bands; stable ranks kept against removed; with
    --spectrum full the histogram of singular values at the largest n with its law; with --spectrum eigenvalues the
    complex plane, one draw before and after removal.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from rmt.experiments.cli import run_experiment
from rmt.experiments.experiment import Bench, Cost, Experiment
from rmt.experiments.setting import Meaningless, check_fields, choice, integer, real, text

if TYPE_CHECKING:
    from rmt.experiments.results import Results

SQRT_LN2 = math.sqrt(math.log(2.0))  # beta for which the weights have standard deviation equal to their mean
WINDOW, SLOPE = 256, 0.0625  # defaults of a sliding window and of ALiBi, where they apply
SPECTRUM_SECONDS = {"none": 0.0, "full": 6e-11, "eigenvalues": 1.2e-9}  # times n^3
TOKENS = ("independent", "orthonormal", "gaussian", "layernorm")


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
    mask: str = choice("none", "which keys a query sees", ("none", "causal", "window"))
    window: int | None = integer(None, f"keys that a query sees under mask window ({WINDOW})")
    tokens: str = text("independent", "independent, orthonormal, gaussian, layernorm, or FILE.npy")
    width: int | None = integer(None, "token width d (the smaller of n and 1024)")
    value_width: int | None = integer(None, "columns of the values of all heads together (the token width)")
    weight_init: str = choice(
        "gaussian", "law of the weights", ("gaussian", "uniform", "truncated", "orthogonal", "rademacher")
    )
    heads: int = integer(1, "query heads; their outputs stand side by side, matrices are those of the first")
    kv_heads: int | None = integer(None, "heads of keys and values (as many as query heads)")
    attention: str = choice("softmax", "from logits to weights", ("softmax", "sigmoid", "relu", "linear", "tanh"))
    cap: float | None = real(None, "soft cap c of the logits, c tanh(l/c) (none)", above=0)
    norm: str = choice("none", "qk puts queries and keys on a sphere", ("none", "qk"))
    sink: float | None = real(None, "logit of a sink in the denominator; 0 is softmax-off-by-one (none)")
    position: str = choice("none", "how the place of a token enters the logits", ("none", "rope", "alibi"))
    slope: float | None = real(None, f"slope of ALiBi ({SLOPE})", above=0)
    variant: str = choice(
        "plain",
        "how the layer is altered; running_mean_removed is the repair under a causal mask",
        ("plain", "outlier_removed", "centred", "running_mean_removed"),
    )

    def __post_init__(self) -> None:
        check_fields(self)
        derived: dict[str, Any] = {}
        if self.model == "iid":
            derived |= {"head_dim": None, "weights": self.weights or "lognormal"}
            if self.tokens == "gaussian":
                derived["tokens"] = "independent"  # values from Gaussian tokens that no logit looks at
        else:
            derived |= {"weights": None, "head_dim": self.head_dim or 64}
        light = self.model == "iid" and derived["weights"] != "lognormal"
        derived["beta"] = None if light else SQRT_LN2 if self.beta is None else self.beta  # light weights have none
        derived["window"] = (self.window or WINDOW) if self.mask == "window" else None
        derived["slope"] = (self.slope or SLOPE) if self.position == "alibi" else None
        if self.kv_heads == self.heads:
            derived["kv_heads"] = None
        width = self.width or min(self.n, 1024)
        if self.tokens.partition("#")[0].endswith(".npy"):
            derived["tokens"], width = self._from_file()
        elif self.tokens not in TOKENS:
            raise ValueError(f"--tokens {self.tokens}: must be one of {', '.join(TOKENS)}, or a file that ends in .npy")
        derived |= {"width": width, "value_width": self.value_width or width}
        for name, value in derived.items():  # so that settings that say the same are one
            object.__setattr__(self, name, value)
        self._refuse(light)

    @property
    def but_for_size(self) -> tuple[Any, ...]:
        """All that a curve against n keeps fixed."""
        fields = dataclasses.asdict(self)
        return tuple(value for name, value in fields.items() if name not in ("n", "width", "value_width"))

    @property
    def plain_scores(self) -> bool:
        """Softmax of the logits as they are, over all keys or the causal ones: it has kernels of its own."""
        unusual = (self.window, self.slope, self.cap, self.sink)
        return self.attention == "softmax" and all(value is None for value in unusual)

    def _from_file(self) -> tuple[str, int]:
        """The name of the file with a digest of its content, and the width of its tokens."""
        from rmt.ensembles.token_files import named, tokens_from

        name = named(self.tokens)
        tokens, width = tokens_from(name).shape
        if self.n > tokens:
            raise Meaningless(f"n = {self.n} tokens of {name}: it holds {tokens}; lower n")
        if self.width not in (None, width):
            raise Meaningless(f"--width {self.width} of {name}: its tokens have width {width}; leave --width out")
        return name, width

    def _refuse(self, light: bool) -> None:
        """What has no meaning, one line each."""
        stochastic = self.attention == "softmax" and self.sink is None
        rules = (
            (light and not self.plain_scores, f"{self.weights} weights have no logits: choose --weights lognormal"),
            (self.model == "iid" and self.norm == "qk", "--norm qk without queries and keys: choose --model keyquery"),
            (
                self.model == "iid" and self.position == "rope",
                "--position rope without queries: choose --model keyquery",
            ),
            (
                self.position == "rope" and (self.head_dim or 0) % 2 == 1,
                f"--position rope with head_dim {self.head_dim}: turns pairs of coordinates; choose an even head_dim",
            ),
            (
                self.attention != "softmax" and self.sink is not None,
                f"--sink with {self.attention} attention: belongs to softmax",
            ),
            (
                self.variant == "running_mean_removed" and self.mask != "causal",
                "running_mean_removed without a causal mask: choose --mask causal, or outlier_removed",
            ),
            (
                self.variant in ("outlier_removed", "running_mean_removed") and not stochastic,
                f"{self.variant} needs rows that sum to one (softmax, no sink): choose --variant centred",
            ),
            (
                self.tokens == "orthonormal" and self.n > (self.width or 0),
                f"n = {self.n} orthonormal tokens of width {self.width}: needs n <= width; raise --width",
            ),
            (
                self.tokens == "layernorm" and self.width == 1,
                "layernorm tokens of width 1 are zero: raise --width",
            ),
            (
                self.weight_init != "gaussian" and self.tokens == "independent" and self.model == "keyquery",
                f"--weight-init {self.weight_init}: independent queries and keys are no product of weights; "
                "choose --tokens gaussian, layernorm or orthonormal",
            ),
            (
                self.heads % (self.kv_heads or self.heads) > 0,
                f"--kv-heads {self.kv_heads}: must divide --heads {self.heads}",
            ),
            (
                (self.value_width or 0) % self.heads > 0,
                f"--heads {self.heads}: must divide the value width {self.value_width}",
            ),
        )
        for broken, reason in rules:
            if broken:
                raise Meaningless(reason)


def measure(setting: Setting, draws: range, stream: Any, bench: Bench) -> dict[str, Any]:
    """Observables of each draw."""
    import numpy as np

    records = [_one_draw(setting, draw, stream, bench) for draw in draws]
    return {name: np.array([record[name] for record in records]) for name in records[0]}


def heads(setting: Setting) -> Any:
    """The ensemble of a setting."""
    from rmt.attention.heads import AttentionHeads
    from rmt.attention.masks import Mask
    from rmt.attention.scores import Score
    from rmt.ensembles.token_files import is_file, tokens_from

    return AttentionHeads(
        n=setting.n,
        model=setting.model,
        beta=setting.beta or 0.0,
        weights=setting.weights or "lognormal",
        head_dim=setting.head_dim or 64,
        tokens=setting.tokens,
        given=tokens_from(setting.tokens) if is_file(setting.tokens) else None,
        width=setting.width or setting.n,
        value_width=setting.value_width or setting.n,
        weight_init=setting.weight_init,
        heads=setting.heads,
        kv_heads=setting.kv_heads or setting.heads,
        position="rope" if setting.position == "rope" else "none",
        norm=setting.norm,
        score=Score(
            mask=Mask(setting.mask, setting.window),
            cap=setting.cap,
            slope=setting.slope,
            sink=setting.sink,
            function=setting.attention,
        ),
    )


def _one_draw(setting: Setting, draw: int, stream: Any, bench: Bench) -> dict[str, Any]:
    """The first head's matrix, and the tokens that all heads make, side by side."""
    import numpy as np

    from rmt.arrays import to_host
    from rmt.attention.variants import variant
    from rmt.observables.one_layer import causal_outliers, eigenvalue_record, matrix_record, token_record

    ensemble, altered = heads(setting), variant(setting.variant)
    where = {"backend": bench.backend, "dtype": bench.dtype, "workers": bench.workers}
    record, outputs = {}, []
    for head in range(setting.heads):
        matrix = ensemble.matrix(stream, draw, head=head, memory_budget=bench.memory_budget, **where)
        if head == 0:
            whole, ladder = bench.spectrum == "full", setting.mask != "none"
            record = matrix_record(matrix, altered, stream, draw, whole=whole, ladder=ladder)
            if ensemble.shared and setting.model == "keyquery" and setting.plain_scores and not ladder:
                record |= _given_draw(ensemble, stream, draw, altered.name)
            if bench.spectrum == "eigenvalues":
                record |= eigenvalue_record(matrix, altered)
            if setting.mask == "causal" and setting.variant == "plain" and ensemble.score.stochastic:
                record["outlier_count"] = causal_outliers(matrix, stream, draw)
        values = ensemble.values(stream, draw, head=head, **where)
        outputs.append(to_host(altered.operate(matrix).apply(values)))
    return {**record, **token_record(outputs[0] if setting.heads == 1 else np.concatenate(outputs, axis=1))}


def _given_draw(ensemble: Any, stream: Any, draw: int, variant: str) -> dict[str, Any]:
    """What theory says of the drawn queries and keys: also for given tokens, of which no law is known."""
    import numpy as np

    from rmt.laws.matrix_free import leading_values

    if ensemble.n <= 2 * ensemble.head_dim:
        return {}
    found = leading_values(*ensemble.queries_and_keys(stream, draw), scale=ensemble.beta / math.sqrt(ensemble.head_dim))
    bulk = [*found.singular_values[:2], np.nan, np.nan]
    first, second = (found.top, bulk[0]) if variant == "plain" else (bulk[0], bulk[1])
    return {"given_draw:top_singular_value": first, "given_draw:second_singular_value": second}


def predict(setting: Setting, *, equations_up_to: float = math.inf) -> dict[str, Any]:
    """What theory says of each quantity."""
    from rmt.experiments.setting import as_record
    from rmt.theorems.width import OneLayer, width_predictions

    return dict(width_predictions(OneLayer(**as_record(setting)), equations_up_to=equations_up_to))


def claims(results: Results) -> list[Any]:
    """How s2 falls with n, and what is special about softmax."""
    from simulations.pages.width_collapse_claims import width_claims

    return width_claims(results)


def summary(results: Results) -> str:
    """Theory, practice and the repair, in plain words about the largest n."""
    from simulations.pages.width_collapse_summary import width_summary

    return width_summary(results)


def cost(setting: Setting, bench: Bench) -> Cost:
    """Rough time of one draw on one core, from measured rates, and memory."""
    n, d, width = setting.n, setting.value_width or setting.n, setting.width or setting.n
    item = 8 if bench.dtype == "float64" else 4
    held = n * n * item
    flops = 2.0 * n * d * (n + width) + 4.0 * n * d * d + 8.0 * d**3
    seconds = 1e-3 + setting.heads * 40 * 0.3e-9 * n * n + flops / 60e9 + n**3 * SPECTRUM_SECONDS[bench.spectrum]
    tokens = n * (2 * d + width) * item
    working = n * (64 * item + 1024) + tokens + (0 if setting.plain_scores else 12 * 2**18 * item)
    dense = 24 * n * n if bench.spectrum != "none" else 0
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
    spectra=("none", "full", "eigenvalues"),
    devices=("cpu", "gpu"),
    cost=cost,
)

if __name__ == "__main__":
    raise SystemExit(run_experiment(EXPERIMENT))
