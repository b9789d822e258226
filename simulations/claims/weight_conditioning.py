"""The claims of weight_conditioning: Theorems 3.5 and 3.8 on weights, the edges, Weyl's shift, and the frozen softmax."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from rmt.observables.conditioning import condition_number
from rmt.statistics.claims import Claim, bound_claim, constant_claim
from rmt.theorems import conditioning

if TYPE_CHECKING:
    from rmt.experiments.results import Results

LARGEST_FINITE_SIZE = 0.05  # where the edges themselves are to be within 7 %
PAPER = "spectral-conditioning"
COUNTEREXAMPLE = np.diag([-3.0, -2.5, -2.2, -2.05])


def all_claims(results: Results) -> list[Claim]:
    """Every claim that the settings of this sweep can speak to."""
    return [
        *_theorem_35(results),
        *_theorem_38(results),
        *_weyl(results),
        *_edges(results),
        *_well_conditioned_heads(results),
        *_frozen(results),
    ]


def _shifted(results: Results, **fields: Any) -> list[Any]:
    return sorted(results.where(correction="shift", **fields), key=lambda s: (s.head_dim, s.width, s.shift))


def _kappa(results: Results, setting: Any) -> np.ndarray:
    return results.samples[setting]["weight_condition_number"]


def _name(setting: Any) -> str:
    return f"{setting.width} x {setting.head_dim}"


def _theorem_35(results: Results) -> Iterator[Claim]:
    for setting in results.where(correction="svd"):
        kappa, plain = _kappa(results, setting), results.samples[setting]["_plain_condition"]
        exact = np.array([conditioning.svd_condition(float(k)) for k in plain])
        claim = bound_claim(
            f"{_name(setting)}: the SVD correction gives kappa(W + C) <= 2",
            [setting.head_dim],
            [kappa],
            bound=2.0,
            along="head_dim",
            expected="supported",
            source=f"{PAPER}, Theorem 3.5",
        )
        error = float(np.max(np.abs(kappa - exact)))
        yield dataclasses.replace(claim, detail=f"{claim.detail}; kappa' = 2 kappa/(1 + kappa) to {error:.1g}")


def _theorem_38(results: Results) -> Iterator[Claim]:
    """At initialisation shift >= 2 helps; for a trained matrix it need not: a matrix that anyone can check by hand."""
    for head_dim in sorted({s.head_dim for s in results.settings}):
        settings = [s for s in _shifted(results, head_dim=head_dim) if s.shift >= 2]
        if settings:
            yield bound_claim(
                f"{_name(settings[0])}, as drawn: a shift of 2 and more lowers kappa",
                [s.shift for s in settings],
                [results.samples[s]["condition_gain"] for s in settings],
                bound=1.0,
                side="lower",
                along="shift",
                expected="supported",
                source=f"{PAPER}, Theorem 3.8",
            )
    if results.where(correction="shift"):
        before, after = (float(condition_number(W)) for W in (COUNTEREXAMPLE, COUNTEREXAMPLE + 2 * np.eye(4)))
        yield Claim(
            "any W: a shift of 2 and more lowers kappa",
            "shift",
            1.0,
            after / before,
            (after / before, after / before),
            "contradicted",
            "contradicted" if after > before else "supported",
            f"{PAPER}, Theorem 3.8 (its hypothesis beyond shift >= 2 is not known to us)",
            f"counterexample diag(-3, -2.5, -2.2, -2.05): kappa {before:.3g}, with 2 I added {after:.3g}",
        )


def _weyl(results: Results) -> Iterator[Claim]:
    settings = [s for s in _shifted(results) if s.shift > 0]
    good, tried = 0, 0
    for setting in settings:
        sample = results.samples[setting]
        rows = zip(sample["_plain_largest"], sample["_plain_condition"], sample["condition_gain"], strict=True)
        gains = [gain for top, kappa, gain in rows if setting.shift > conditioning.weyl_shift(top, kappa)]
        tried, good = tried + len(gains), good + sum(gain > 1 for gain in gains)
    if tried:
        yield Claim(
            "a shift above s_max (kappa + 1)/(kappa - 1) lowers kappa, whatever W is",
            "shift",
            1.0,
            good / tried,
            None,
            "supported",
            "supported" if good == tried else "contradicted",
            "derived (Weyl), see rmt.theorems.conditioning.weyl_shift",
            f"{good} of {tried} draws that meet the condition",
        )


def _edges(results: Results) -> Iterator[Claim]:
    for head_dim in sorted({s.head_dim for s in results.settings}):
        ratios = []
        for setting in _shifted(results, head_dim=head_dim):
            where = {"std": setting.deviation, "shift": setting.shift or 0.0}
            limit = conditioning.shifted_edges(setting.width, head_dim, **where).condition
            said = conditioning.shifted_condition(setting.width, head_dim, **where).value
            if said is not None and np.isfinite(limit) and limit / said < 1 + LARGEST_FINITE_SIZE:
                ratios.append(_kappa(results, setting) / limit)
        if len(ratios) >= 2:
            yield constant_claim(
                f"{results.settings[0].width} x {head_dim}: kappa is the ratio of the edges, within 7 %",
                list(range(1, len(ratios) + 1)),
                ratios,
                predicted=1.0,
                tolerance=0.07,
                along="shift (by rank)",
                expected="supported",
                source="derived, see rmt.theorems.conditioning",
            )


def _well_conditioned_heads(results: Results) -> Iterator[Claim]:
    for setting in _shifted(results, shift=0.0):
        if setting.head_dim * 8 <= setting.width:
            yield bound_claim(
                f"a {_name(setting)} head is well conditioned as drawn: kappa < 2.1",
                [setting.head_dim],
                [_kappa(results, setting)],
                bound=2.1,
                along="head_dim",
                expected="supported",
                source="derived, see rmt.theorems.conditioning",
            )


def _frozen(results: Results) -> Iterator[Claim]:
    for head_dim in sorted({s.head_dim for s in results.settings}):
        settings = [s for s in _shifted(results, head_dim=head_dim) if s.shift >= 10]
        if settings:
            yield bound_claim(
                f"{_name(settings[0])}: a shift of 10 freezes queries and keys (1 - sum p^2 < 1e-3)",
                [s.shift for s in settings],
                [results.samples[s]["softmax_sensitivity"] for s in settings],
                bound=1e-3,
                along="shift",
                expected="supported" if head_dim >= 32 else None,  # |E^T x|^2 of few coordinates can be small
                source="derived, see rmt.theorems.conditioning_saturation",
            )


def sentence(results: Results) -> str:
    """Who needs a correction, and what a large one costs."""
    parts = []
    for setting in _shifted(results, shift=0.0):
        kappa = float(np.median(_kappa(results, setting)))
        words = "is well conditioned" if kappa < 3 else "is badly conditioned"
        parts.append(f"a {_name(setting)} weight {words} at initialisation (kappa = {kappa:.3g})")
    for setting in _shifted(results):
        if setting.shift == max(s.shift for s in _shifted(results)) and setting.shift > 1:
            left = float(np.median(results.samples[setting]["softmax_sensitivity"]))
            stuck = "freezes" if left < 0.02 else "leaves free"
            parts.append(
                f"a shift of {setting.shift:g} brings kappa of the {_name(setting)} weight to "
                f"{np.median(_kappa(results, setting)):.3g} and {stuck} Q and K (1 - sum p^2 = {left:.2g})"
            )
    text = "; ".join(parts)
    return text[:1].upper() + text[1:] + "." if text else ""
