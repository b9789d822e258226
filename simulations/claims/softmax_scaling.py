"""How softmax regression improves with n: exponents, levels and the best balance."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from rmt.statistics.claims import Claim, exponent_claim
from rmt.statistics.contrasts import ratio_claim
from rmt.theorems.softmax_contexts import best_tau, spectral_start_distance_squared, spectral_start_excess
from rmt.theorems.softmax_predictions import training_predictions
from simulations.claims.softmax_groups import OWN, draws_of, label

if TYPE_CHECKING:
    from rmt.experiments.results import Results

SOURCE = "goel2026; derived, see rmt.theorems.softmax_contexts"
# of the mean ratio; the context noise in the prompt error is known within 20 %
TOLERANCES = {"start_excess": 0.1, "start_distance_squared": 0.1, "excess_risk": 0.1, "prompt_error": 0.15}


def scaling_claims(results: Results) -> Iterator[Claim]:
    """Exponents along n, closed forms of the level, and the balance with the least error."""
    yield from _excess(results)
    yield from _distance(results)
    yield from _levels(results)
    yield from _balance(results)


def _excess(results: Results) -> Iterator[Claim]:
    """Algorithm 1: -1 with one context and not -2; with n contexts we say neither beforehand."""
    for group in results.along("n"):
        first = group[0]
        if first.optimizer not in OWN or len(group) < 3:
            continue
        one = first.contexts == "one"
        for power, expected in ((-1.0, "supported" if one else None), (-2.0, "contradicted" if one else None)):
            yield exponent_claim(
                f"{label(first)}: excess falls like n^{power:g}" + ("" if one else " up to logarithms"),
                [s.n for s in group],
                [draws_of(results, s, "excess_risk") for s in group],
                predicted=power,
                tolerance=0.25 if one else 0.45,
                expected=expected,
                source=SOURCE if power == -1 else "goel2026 (v1: n^-2 log^6 n)",
            )


def _distance(results: Results) -> Iterator[Claim]:
    """The spectral start comes closer to the minima like n^-1/2, and how often it is too far to be safe."""
    for group in results.along("n", start="spectral", optimizer="preconditioned"):
        first = group[0]
        if len(group) < 3:
            continue
        failed = [draws_of(results, s, "start_failed") for s in group]
        power = -1 if first.contexts == "one" else -2  # one over the number of tokens in all
        claim = exponent_claim(
            f"{label(first)}: squared distance of the start to the minima falls like n^{power}",
            [s.n for s in group],
            [draws_of(results, s, "start_distance_squared") for s in group],
            predicted=float(power),
            tolerance=0.25,
            expected="supported",
            source=SOURCE,
        )
        shares = ", ".join(f"{np.mean(share):.2g} at n = {s.n}" for s, share in zip(group, failed, strict=True))
        total = sum(share.size for share in failed)
        yield dataclasses.replace(
            claim, detail=f"{claim.detail}; starts farther than sqrt(s_d)/2: {shares} ({total} draws)"
        )


def _laws(setting: Any) -> dict[str, float]:
    """The closed forms that are in range, by quantity."""
    sizes = {"width": setting.width, "n": setting.n, "noise": setting.noise}
    found = {
        "start_excess": spectral_start_excess(setting.singular_values, **sizes),
        "start_distance_squared": spectral_start_distance_squared(setting.singular_values, **sizes),
    }
    for quantity, law in training_predictions(setting.singular_values, tau=setting.balance, **sizes).items():
        if law.value is not None:
            found[quantity] = law.value
    return found


def _levels(results: Results) -> Iterator[Claim]:
    """Measured over law, draw by draw, over all sizes n >= 1000 together."""
    groups: dict[Any, list[Any]] = {}
    for setting in results.where(optimizer="preconditioned", start="spectral", regularizer="on", contexts="one"):
        if setting.n >= 1000:
            groups.setdefault(dataclasses.replace(setting, n=10**9), []).append(setting)
    told: set[Any] = set()
    for members in groups.values():
        laws = {setting: _laws(setting) for setting in members}
        for quantity, tolerance in TOLERANCES.items():
            known = [setting for setting in members if quantity in laws[setting]]
            problem = quantity, dataclasses.replace(members[0], n=10**9, tau=1.0)
            if quantity.startswith("start_") and problem in told:  # the start is the same for every tau
                continue
            told.add(problem)
            draws = [draws_of(results, setting, quantity) for setting in known]
            if draws:
                claim = ratio_claim(
                    f"{label(members[0])}: {quantity} over its closed form, n >= 1000",
                    np.concatenate(draws),
                    np.repeat([laws[setting][quantity] for setting in known], [d.size for d in draws]),
                    predicted=1.0,
                    tolerance=tolerance,
                    along="n",
                    statistic="mean",
                    paired=True,
                    expected="supported",
                    source=SOURCE,
                )
                yield dataclasses.replace(claim, detail=f"{claim.detail}, tolerance {tolerance:.0%}")


def _balance(results: Results) -> Iterator[Claim]:
    """The tau with the least error on fresh prompts, against the closed form; the grid of the sweep decides how finely."""
    for group in results.along("tau", optimizer="preconditioned", start="spectral", contexts="one"):
        first = group[0]
        if len(group) < 3:
            continue
        means = [float(np.nanmean(draws_of(results, s, "prompt_error"))) for s in group]
        at = int(np.argmin(means))
        near = (group[max(at - 1, 0)].tau, group[min(at + 1, len(group) - 1)].tau)
        best = best_tau(first.singular_values)
        listed = ", ".join(f"{s.tau:g}: {mean:.2g}" for s, mean in zip(group, means, strict=True))
        yield Claim(
            f"n = {first.n}: fresh prompts are answered best near tau = {best:.3g}",
            "tau",
            best,
            float(group[at].tau),
            near,
            "supported",
            "supported" if near[0] <= best <= near[1] else "contradicted",
            SOURCE,
            f"mean error by tau: {listed}; the interval spans the neighbours of the best tau",
        )
