"""The claims of width_collapse: what its numbers tend to and how fast s2 falls, and what the gap owes to softmax."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from rmt.statistics.claims import bound_claim, decay_claim, exponent_claim, limit_claim
from rmt.statistics.contrasts import ratio_claim

if TYPE_CHECKING:
    from rmt.experiments.results import Results

POSITIVE = ("softmax", "sigmoid", "relu")  # attention functions whose weights have a positive mean


def width_claims(results: Results) -> list[Any]:
    """What the sweep says beyond its rows: laws along n, and which attention functions have a gap."""
    groups: dict[Any, list[Any]] = {}
    every: dict[Any, list[Any]] = {}
    for setting in results.settings:
        every.setdefault(setting.but_for_size, []).append(setting)
        if setting.variant == "plain" and setting.mask != "window" and setting.beta != 0 and setting.n > 1:
            groups.setdefault(setting.but_for_size, []).append(setting)
    causal = [sizes for sizes in groups.values() if sizes[0].mask == "causal"]
    groups = {key: sizes for key, sizes in groups.items() if sizes[0].mask == "none"}
    found = []
    for sizes in groups.values():
        first = sizes[0]
        usual = first.plain_scores and first.norm == "none" and first.tokens in ("independent", "orthonormal")
        if usual and len(sizes) >= 3:
            found += _laws(results, sizes)
    for sizes in every.values():
        found += _limits(results, sorted(sizes, key=lambda s: s.n))
    found += _universality(results, [max(sizes, key=lambda s: s.n) for sizes in groups.values()])
    if any(s.attention != "softmax" for s in results.settings):
        found += [_gap(results, sizes) for sizes in groups.values()]
    return found + [_gap(results, sizes) for sizes in causal if sizes[0].plain_scores]


def _label(setting: Any) -> str:
    if setting.beta is None:
        return f"iid {setting.weights} weights"
    width = f", d_k = {setting.head_dim}" if setting.model == "keyquery" else ""
    return f"{setting.model} logits, beta = {setting.beta:.4g}{width}"


def _laws(results: Results, sizes: list[Any]) -> list[Any]:
    """s2 falls to beta/sqrt(d_k) with key-query logits, like n^-1/2 with iid logits, and not the other way."""
    first, found = sizes[0], []
    x, draws = [s.n for s in sizes], [results.samples[s]["second_singular_value"] for s in sizes]
    keyquery, head_dim = first.model == "keyquery", first.head_dim or 64
    if first.beta is not None:
        found.append(
            limit_claim(
                f"{_label(first)}: s2 tends to beta/sqrt({head_dim})",
                x,
                draws,
                predicted=first.beta / math.sqrt(head_dim),
                tolerance=0.15,
                expected="supported" if keyquery else "contradicted",
                source="derived, see rmt.laws.hermite",
            )
        )
    found.append(
        exponent_claim(
            f"{_label(first)}: s2 falls like n^-1/2",
            x,
            draws,
            predicted=-0.5,
            tolerance=0.05,
            expected="contradicted" if keyquery else "supported",
            source="nait-saada2024",
        )
    )
    return found


def _limits(results: Results, sizes: list[Any]) -> list[Any]:
    """What is stated to tend to a limit, where the sweep has the five sizes that a limit takes, widths in proportion to n."""
    from rmt.experiments.setting import as_record
    from rmt.theorems.limits import layer_limits
    from rmt.theorems.width import OneLayer

    if len(sizes) < 5:
        return []
    ends = [{one.name: one for one in layer_limits(OneLayer(**as_record(s)))} for s in (sizes[0], sizes[-1])]
    variant = "" if sizes[0].variant == "plain" else f", {sizes[0].variant}"
    found = []
    for name, one in ends[0].items():
        value, known = one.limit.value, one.quantity in results.samples[sizes[0]] and name in ends[1]
        if value is None or not known or ends[1][name].limit != one.limit or name == "s_2":  # of which `_laws` speaks
            continue
        scaled = [one.scaled(s.n, results.samples[s][one.quantity]) for s in sizes]
        claim = f"{_label(sizes[0])}{variant}: {name} tends to {value:.4g}"
        if value == 0:
            found.append(
                decay_claim(
                    claim, [one.size(s.n) for s in sizes], scaled, limit=one.limit, misfit=1e-3, expected="supported"
                )
            )
            continue
        rate = one.limit.exponent or 1.0
        found.append(
            limit_claim(
                claim,
                [s.n for s in sizes],
                scaled,
                predicted=value,
                tolerance=0.05,
                decay=(rate / 1.5, 1.5 * rate),
                statistic=one.limit.statistic,
                source=one.limit.source,
                expected="supported",
            )
        )
    return found


def _universality(results: Results, settings: list[Any]) -> list[Any]:
    """Weights with iid entries share one law whatever the law of an entry; orthogonal weights have another (derived)."""
    found = []
    for one in settings:
        if one.weight_init == "gaussian" or not one.plain_scores:
            continue
        other = dataclasses.replace(one, weight_init="gaussian")
        if other not in settings:
            continue
        alike = one.weight_init != "orthogonal" or one.model == "iid"
        found.append(
            ratio_claim(
                f"{one.weight_init} weights, {one.tokens.split('/')[-1]} tokens, {_label(one)}: s2 as with gaussian weights",
                results.samples[one]["second_singular_value"],
                results.samples[other]["second_singular_value"],
                predicted=1.0,
                tolerance=0.05,
                along="weight_init",
                expected="supported" if alike else "contradicted",
                source="derived: only S_Q and S_K matter, see rmt.laws.token_scales",
            )
        )
    return found


def _gap(results: Results, sizes: list[Any]) -> Any:
    """One value leads where the weights have a positive mean: the gap is not special to softmax (derived).

    f(l_ij)/n is its mean mu 11^T/n, of norm |mu|, plus noise of norm 2 sd/sqrt(n) (and beta/sqrt(d_k)-like low rank).
    """
    first = sizes[0]
    mask = "" if first.mask == "none" else f"{first.mask} "
    return bound_claim(
        f"{mask}{first.attention} attention, {_label(first)}: one singular value leads, s2 < s1/2",
        [s.n for s in sizes],
        [results.samples[s]["gap_ratio"] for s in sizes],
        bound=0.5,
        side="upper",
        statistic="median",
        expected="supported" if first.attention in POSITIVE and not mask else "contradicted",
        source="derived: the gap follows the positive mean of the weights; a causal mean has a ladder",
    )
