"""The verdicts of cause_and_effect: on (iii) the collapse in width, (ii) the collapse in depth, (i) the gradients."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from rmt.statistics.associations import association_claim
from rmt.statistics.claims import Claim, bound_claim, exponent_claim
from rmt.statistics.contrasts import difference_claim

if TYPE_CHECKING:
    from rmt.experiments.results import Results

SOURCE = "nait-saada2024, as a statement"
ORDERED = 0.8  # rank correlation of gap and effect; doses below the edge of the bulk share one gap, in any order


def judged(results: Results) -> list[Any]:
    """All verdicts that the sweep allows."""
    found: list[Claim] = []
    curves: dict[Any, list[Any]] = {}
    for setting in results.settings:
        curves.setdefault(dataclasses.replace(setting, eta=0.0), []).append(setting)
    for doses in curves.values():
        doses.sort(key=lambda s: s.eta)
        found += _width(results, doses) + _depth(results, doses) + _gradients(results, doses)
    found += _in_width(results)
    return found


def where(setting: Any) -> str:
    """What one curve is about."""
    skip = "no skip" if setting.skip_scale == "0" else f"skip {setting.skip_scale}"
    wiring = f"{setting.model} logits, {skip}, norm {setting.norm}"
    return f"{wiring}, value weights {setting.value_scale}, n = {setting.n}, L = {setting.depth}"


def _mean(results: Results, doses: list[Any], quantity: str) -> list[float]:
    return [float(np.mean(results.samples[s][quantity])) for s in doses]


def _first_convention(results: Results, setting: Any) -> bool:
    """Ranks do not see the scale of the weights: say it once."""
    return setting.value_scale == results.settings[0].value_scale


def _width(results: Results, doses: list[Any]) -> list[Claim]:
    if not _first_convention(results, doses[0]):
        return []
    gap = _mean(results, doses, "spectral_gap")
    if doses[0].n < 8:  # one token has no rank to lose
        return []
    found = [
        association_claim(
            f"(iii) {where(doses[0])}: the wider the gap, the lower the rank behind one layer",
            gap,
            [-rank for rank in _mean(results, doses, "branch_stable_rank")],
            at_least=ORDERED,
            along="eta",
            expected="supported",
            source=SOURCE,
        )
    ]
    if (doses[0].eta, doses[-1].eta) == (0.0, 1.0):
        ends = [results.samples[s]["branch_stable_rank"] for s in (doses[0], doses[-1])]
        found.append(
            bound_claim(
                f"(iii) {where(doses[0])}: without the outlier the rank behind one layer is at least five times as high",
                [doses[0].n],
                [ends[0] / ends[1]],
                bound=5.0,
                side="lower",
                expected="supported",
                source=SOURCE,
            )
        )
    return found


def _depth(results: Results, doses: list[Any]) -> list[Claim]:
    if not _first_convention(results, doses[0]) or doses[0].depth < 2 or doses[0].n < 8:
        return []
    found = [
        association_claim(
            f"(ii) {where(doses[0])}: the wider the gap, the faster the collapse from layer to layer",
            _mean(results, doses, "spectral_gap"),
            _mean(results, doses, "collapse_rate"),
            at_least=ORDERED,
            along="eta",
            expected="supported",
            source=SOURCE,
        )
    ]
    if doses[0].eta == 0.0 and doses[0].skip is None:
        samples = results.samples[doses[0]]
        found.append(
            bound_claim(
                f"(ii) {where(doses[0])}: without the outlier the rank still falls with depth (it worsens, not causes)",
                [doses[0].n],
                [samples["last_stable_rank"] / samples["branch_stable_rank"]],
                bound=0.8,
                expected="supported",
                source="derived, see rmt.theorems.depth",
            )
        )
    return found


def _gradients(results: Results, doses: list[Any]) -> list[Claim]:
    """Growth of either sign is a pathology: vanishing and exploding alike."""
    if doses[0].depth < 2 or doses[0].n < 8:
        return []
    plain = doses[0].skip is None and doses[0].norm == "none" and doses[0].model != "own"
    unit = doses[0].value_scale == "1"
    away = [float(np.mean(np.abs(results.samples[s]["gradient_growth"]))) for s in doses]
    found = [
        association_claim(
            f"(i) {where(doses[0])}: the wider the gap, the farther a gradient's growth from one a layer",
            _mean(results, doses, "spectral_gap"),
            away,
            at_least=ORDERED,
            along="eta",
            expected=("supported" if unit else "contradicted") if plain else None,
            source=SOURCE,
        )
    ]
    if (doses[0].eta, doses[-1].eta) == (0.0, 1.0):
        ends = [np.abs(results.samples[s]["gradient_growth"]) for s in (doses[0], doses[-1])]
        found.append(
            difference_claim(
                f"(i) {where(doses[0])}: the outlier moves |ln growth| a layer away from zero by at least 0.1",
                ends[1],
                ends[0],
                predicted=5.05,
                tolerance=4.95,
                along="eta",
                expected=("supported" if unit else "contradicted") if plain else None,
                source=SOURCE,
                paired=True,
            )
        )
    return found


def _in_width(results: Results) -> list[Claim]:
    """The rank behind one layer against n, at both ends of the dose."""
    found = []
    for dose, power in ((0.0, 1.0), (1.0, 0.0)):
        lines: dict[Any, list[Any]] = {}
        for setting in results.where(eta=dose):
            if setting.width == setting.n and _first_convention(results, setting):
                lines.setdefault(setting.but_for_size, []).append(setting)
        for line in lines.values():
            line.sort(key=lambda s: s.n)
            if len(line) < 3:
                continue
            said = "linear in n without the outlier" if dose == 0 else "the same for every n with the outlier"
            wiring = where(line[0]).partition(", value weights")[0]
            found.append(
                exponent_claim(
                    f"(iii) {wiring}: the rank behind one layer is {said}",
                    [s.n for s in line],
                    [results.samples[s]["branch_stable_rank"] for s in line],
                    predicted=power,
                    tolerance=0.1,
                    expected="supported" if line[0].model == "iid" else None,
                    source=SOURCE,
                )
            )
    return found
