"""The statements that the experiment on variants judges."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from rmt.statistics.associations import association_claim
from rmt.statistics.claims import Claim, bound_claim, exponent_claim
from rmt.statistics.contrasts import ratio_claim

if TYPE_CHECKING:
    from rmt.experiments.results import Results

FIGURES = "nait-saada2024, as a statement; derived, see simulations.variants"
REPAIRS = ("outlier_removed", "centred", "running_mean_removed", "identity_plus_centred")
LIMIT = 1.5  # growth of the frozen gradient
SHARE = 0.8


def judged(results: Results) -> list[Any]:
    """All claims that the sweep allows."""
    found: list[Claim] = []
    for line in _lines(results, "variant"):
        found += _explained(results, line)
        found += _repaired(results, {s.variant: s for s in line})
    for line in _lines(results, "n", "width", "value_width"):
        found += _linear(results, sorted(line, key=lambda s: s.n))
    return found


def _lines(results: Results, *but: str) -> list[list[Any]]:
    """Settings that differ in the named fields only."""
    groups: dict[Any, list[Any]] = {}
    for setting in results.settings:
        key = tuple(
            getattr(setting, field.name)
            for field in dataclasses.fields(setting)
            if field.name not in (*but, "eta", "differential_lambda")
        )
        groups.setdefault(key, []).append(setting)
    return list(groups.values())


def _where(setting: Any) -> str:
    skip = f"skip {setting.skip_scale}" if setting.skip_scale != "0" else "no skip"
    return f"mask {setting.mask}, {skip}, norm {setting.norm}, n = {setting.n}, L = {setting.depth}"


def _last_rank(results: Results, setting: Any) -> np.ndarray:
    return results.samples[setting]["token_stable_rank"][:, -1]


def _explained(results: Results, line: list[Any]) -> list[Claim]:
    """Does the gap order the variants as their ranks do?"""
    ratios = [float(np.mean(results.samples[s]["gap_ratio"])) for s in line]
    known = [at for at, ratio in enumerate(ratios) if math.isfinite(ratio)]
    found: list[Claim] = []
    for what, values in (
        ("the stable rank of the layer's branch (width)", [results.samples[s]["branch_stable_rank"] for s in line]),
        ("the stable rank after the last layer (depth)", [_last_rank(results, s) for s in line]),
        ("the growth of the gradient", [results.samples[s]["gradient_factor"] for s in line]),
    ):
        sign = -1 if "gradient" in what else 1
        found.append(
            association_claim(
                f"{_where(line[0])}: across variants s2/s1 explains {what}",
                [ratios[at] for at in known],
                [sign * float(np.mean(values[at])) for at in known],
                at_least=SHARE,
                along="variant",
                source=FIGURES,
            )
        )
    return found


def _repaired(results: Results, by_name: dict[str, Any]) -> list[Claim]:
    """What single variants do, where the sweep holds them."""
    found: list[Claim] = []
    plain = by_name.get("plain")
    repair = by_name.get("running_mean_removed" if plain is not None and plain.mask == "causal" else "outlier_removed")
    if plain is None or repair is None:
        return found
    where, inside = _where(plain), plain.skip is not None
    for setting, expected in ((repair, "supported" if inside else None), (plain, "contradicted" if inside else None)):
        found.append(
            bound_claim(
                f"{where}, {setting.variant}: a gradient with attention held fixed grows by at most {LIMIT}",
                [setting.n],
                [results.samples[setting]["frozen_gradient_factor"]],
                bound=LIMIT,
                expected=expected,
                source="derived, see simulations.variants",
            )
        )
    found.append(
        bound_claim(
            f"{where}, {repair.variant}: a gradient through every path grows by at most {LIMIT}",
            [repair.n],
            [results.samples[repair]["gradient_factor"]],
            bound=LIMIT,
            source="derived, see simulations.variants",
        )
    )
    found.append(
        bound_claim(
            f"{where}: {repair.variant} keeps at least five times the rank of plain attention after the last layer",
            [plain.n],
            [_last_rank(results, repair) / _last_rank(results, plain)],
            bound=5.0,
            side="lower",
            expected=("supported" if inside else "contradicted") if plain.mask == "causal" else None,
            source=FIGURES,
        )
    )
    if plain.mask == "causal" and "outlier_removed" in by_name:
        found.append(
            ratio_claim(
                f"{where}: taking off 11^T/n instead of the running mean does as well for the last rank",
                _last_rank(results, by_name["outlier_removed"]),
                _last_rank(results, repair),
                predicted=1.0,
                tolerance=0.2,
                expected="contradicted" if inside else None,
                source=FIGURES,
                paired=True,
            )
        )
    return found


def _linear(results: Results, line: list[Any]) -> list[Claim]:
    """Is the last rank linear in n where the width follows n?"""
    first = line[0]
    follows = len({s.width / s.n for s in line}) == 1 and len(line) >= 3
    if not follows or first.skip is None or first.variant not in ("plain", *REPAIRS):
        return []
    causal = first.mask == "causal"
    working = first.variant in ("running_mean_removed", "identity_plus_centred") or (
        not causal and first.variant in ("outlier_removed", "centred")
    )
    return [
        exponent_claim(
            f"mask {first.mask}, {first.variant}: the stable rank after layer {first.depth} is linear in n",
            [s.n for s in line],
            [_last_rank(results, s) for s in line],
            predicted=1.0,
            tolerance=0.2,
            expected="supported" if working else "contradicted" if first.variant == "plain" else None,
            source=FIGURES,
        )
    ]
