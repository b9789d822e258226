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

import math
from typing import TYPE_CHECKING, Any

from rmt.experiments.cli import run_experiment
from rmt.experiments.experiment import Bench, Cost, Experiment, by_quantity
from simulations.layers.setting import Setting, heads

if TYPE_CHECKING:
    from rmt.experiments.results import Results

SPECTRUM_SECONDS = {"none": 0.0, "full": 6e-11, "eigenvalues": 1.2e-9}  # times n^3


def measure(setting: Setting, draws: range, stream: Any, bench: Bench) -> dict[str, Any]:
    """Observables of each draw."""

    return by_quantity(_one_draw(setting, draw, stream, bench) for draw in draws)


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
    from simulations.claims.width_collapse import width_claims

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
