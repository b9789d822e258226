"""The oracle: from the sizes of one attention layer to everything theory says of it, in a fraction of a second.

Nothing is sampled. `rmt.predict(n=131072, head_dim=128, beta=1)` and `rmt predict --n 131072 --head-dim 128`.
"""

from __future__ import annotations

import inspect
import json
import math
import numbers
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rmt.theorems.prediction import Exact, Prediction, out_of_range
from rmt.theorems.width import (
    ATTENTIONS,
    MASKS,
    MODELS,
    TOKENS,
    VARIANTS,
    WEIGHTS,
    OneLayer,
    Predictions,
    width_predictions,
)

__all__ = ["QUANTITIES", "main", "predict"]

OF_TOKENS = (
    "token_stable_rank",
    "gram_stable_rank",
    "gram_stable_rank_excess",
    "effective_rank",
    "token_cosine",
    "rank_one_residual",
)
QUANTITIES = (
    "top_singular_value",
    "second_singular_value",
    "spectral_gap",
    "gap_ratio",
    "outlier_count",
    "singular_value",
    "frobenius_norm_squared",
    "attention_stable_rank",
    "attention_entropy",
    "second_eigenvalue_modulus",
    *OF_TOKENS,
)
POSITIONS, NORMS = ("none", "rope", "alibi"), ("none", "qk")
WINDOW, SLOPE = 256, 0.0625  # defaults of a sliding window and of ALiBi, where they apply
QUICK = 512  # tokens up to which the causal equations are solved in a fraction of a second
WORDS = {  # of the arguments that are words
    "model": MODELS,
    "weights": WEIGHTS,
    "mask": MASKS,
    "tokens": TOKENS,
    "weight_init": ("gaussian", "uniform", "truncated", "orthogonal", "rademacher"),
    "attention": ATTENTIONS,
    "norm": NORMS,
    "position": POSITIONS,
    "variant": VARIANTS,
}
NOTHING = "no prediction: no theorem here speaks of it"


def predict(
    n: int,
    *,
    model: str = "keyquery",
    beta: float = 1.0,
    head_dim: int = 64,
    weights: str = "lognormal",
    mask: str = "none",
    window: int | None = None,
    tokens: str = "independent",
    width: int | None = None,
    value_width: int | None = None,
    weight_init: str = "gaussian",
    heads: int = 1,
    kv_heads: int | None = None,
    attention: str = "softmax",
    cap: float | None = None,
    norm: str = "none",
    sink: float | None = None,
    position: str = "none",
    slope: float | None = None,
    variant: str = "plain",
) -> Predictions:
    """What theory says of one layer of softmax attention over n tokens at random initialisation, by quantity.

    Every name of `QUANTITIES` is a key. A value is a Prediction with `.value`, `.band`, `.statistic`, `.standing`,
    `.source` and `.validity`; `singular_value` maps a rank to one. Where theory is silent or out of range `.value` is
    None and `.validity` says why. The arguments are the flags of width_collapse, with its defaults but for beta = 1:
    `width` is the smaller of n and 1024, `value_width` the width. Raises ValueError, in one line, for what has no meaning.

    >>> round(predict(n=131072, head_dim=128)["second_singular_value"].value, 3)
    0.092
    """
    sizes = {"n": n, "head_dim": head_dim, "width": width, "value_width": value_width, "window": window}
    for name, value in (sizes | {"heads": heads, "kv_heads": kv_heads}).items():
        if value is not None and (not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 1):
            raise ValueError(f"{name} {value}: must be an integer >= 1")
    n, head_dim = int(n), int(head_dim)  # an integer of NumPy overflows
    if beta is None or not 0 <= beta <= 1e6:
        raise ValueError(f"beta {beta}: must be a number from 0 to 1e6")
    if sink is not None and not math.isfinite(sink):
        raise ValueError(f"sink {sink}: must be a finite number")
    for name, number in {"cap": cap, "slope": slope}.items():
        if number is not None and not (math.isfinite(number) and number > 0):
            raise ValueError(f"{name} {number}: must be a finite number > 0")
    words = {"norm": norm, "position": position, "tokens": tokens, "weight_init": weight_init}
    for name, word in words.items():
        if word not in WORDS[name]:
            raise ValueError(f"{name} {word}: must be one of {', '.join(WORDS[name])}")
    width = width or min(n, 1024)
    if tokens == "orthonormal" and n > width:
        raise ValueError(f"n = {n} orthonormal tokens of width {width}: needs n <= width; raise width")
    one = OneLayer(
        n=n,
        model=model,
        beta=beta,
        head_dim=head_dim,
        weights=weights,
        mask=mask,
        window=(window or WINDOW) if mask == "window" else None,
        tokens="independent" if model == "iid" and tokens == "gaussian" else tokens,
        width=width,
        value_width=value_width or width,
        weight_init=weight_init,
        heads=heads,
        kv_heads=kv_heads,
        attention=attention,
        cap=cap,
        norm=norm,
        sink=sink,
        position=position,
        slope=(slope or SLOPE) if position == "alibi" else None,
        variant=variant,
    )
    found = width_predictions(one, equations_up_to=QUICK)
    if one.mask == "none" and one.variant == "plain" and beta > 0 and n > 1:
        found["outlier_count"] = Exact(
            value=1,
            source="derived: A differs from A - 11^T/n by rank one, so the values interlace",
            standing="theorem",
            validity="values of A above the largest of A - 11^T/n",
        )
    reasons = {name: one.unknown() or (one.unknown_tokens() if name in OF_TOKENS else None) for name in QUANTITIES}
    return {name: found.get(name, out_of_range(reasons[name] or NOTHING, source="none")) for name in QUANTITIES}


def main(argv: Sequence[str]) -> int:
    """`rmt predict --n N ...`: the arguments of `predict` as flags; returns the exit code."""
    from rmt.parser import Parser

    parser = Parser(prog="rmt predict", description=__doc__)
    kinds: dict[str, Any] = {"int": int, "int | None": int, "float": float, "float | None": float, "str": str}
    for name, parameter in inspect.signature(predict).parameters.items():
        required = parameter.default is parameter.empty
        shown = "" if required or parameter.default is None else f"({parameter.default})"
        parser.add_argument(
            "--" + name.replace("_", "-"),
            type=kinds[str(parameter.annotation)],
            default=parameter.default,
            required=required,
            metavar="{" + ",".join(WORDS[name]) + "}" if name in WORDS else None,
            help=shown,
        )
    parser.add_argument("--format", choices=("table", "json"), default="table")
    try:
        setting = vars(parser.parse_args(list(argv)))
    except SystemExit as stop:
        return int(stop.code or 0)
    form = setting.pop("format")
    try:
        found = predict(**setting)
    except ValueError as reason:
        print(f"rmt predict: error: {reason}", file=sys.stderr)
        return 2
    rows = list(_rows(found))
    if form == "json":
        print(json.dumps({"setting": setting, "predictions": rows}, indent=1, allow_nan=False))
    else:
        print("\n".join(_lines(rows)))
    return 0


def _rows(found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for quantity, entry in found.items():
        forms: Mapping[int | None, Prediction] = entry if isinstance(entry, Mapping) else {None: entry}
        for rank, form in forms.items():
            yield {
                "quantity": quantity,
                "index": {} if rank is None else {"rank": rank},
                "value": form.value,
                "band": None if form.band is None else list(form.band),
                "statistic": form.statistic,
                "kind": form.kind if form.value is not None else None,
                "standing": form.standing if form.value is not None else None,
                "source": form.source,
                "validity": form.validity,
            }


def _lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The rows as text, one line each."""
    yield f"{'quantity':26}{'value':>11}  {'band':21}{'standing':10}validity"
    for row in rows:
        name = row["quantity"] + "".join(f" {rank}" for rank in row["index"].values())
        value = "-" if row["value"] is None else f"{row['value']:.5g}"
        band = "" if row["band"] is None else "[{:.4g}, {:.4g}]".format(*row["band"])
        yield f"{name:26}{value:>11}  {band:21}{row['standing'] or '':10}{row['validity']}"
