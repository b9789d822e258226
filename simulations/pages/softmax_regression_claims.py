"""The claims of softmax_regression, one by one: scaling laws, comparisons, ingredients, and whether runs get stuck."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import beta
from scipy.stats import t as student

from rmt.statistics.claims import Claim, exponent_claim
from rmt.statistics.estimate import Estimate
from rmt.theorems.softmax_contexts import (
    best_tau,
    learned_excess,
    spectral_start_distance_squared,
    spectral_start_excess,
)

if TYPE_CHECKING:
    from rmt.experiments.results import Results

SOURCE = "goel2026; derived, see rmt.theorems.softmax_contexts"
OWN = ("preconditioned", "renormalised")


def all_claims(results: Results) -> list[Claim]:
    """Every claim that the settings of this sweep can speak to."""
    found = [
        *_scaling(results),
        *_levels(results),
        *_rivals(results),
        *_stuck(results),
        *_ingredients(results),
        *_sensitivity(results),
        *_balance(results),
        *_divergence(results),
    ]
    return found


def sentence(results: Results) -> str:
    """Median final excess of each optimiser at the largest n, from its natural start."""
    n = max(s.n for s in results.settings)
    ends: dict[str, float | str] = {}
    for setting in results.where(n=n):
        values = results.samples[setting]["excess_risk"]
        if np.isfinite(values).any():
            ends.setdefault(setting.optimizer, float(np.nanmedian(values)))
        else:
            steps = results.samples[setting]["diverged_at_step"]
            ends.setdefault(setting.optimizer, f"diverged at step {int(np.nanmedian(steps))}")
    parts = [f"{name} {end:.2g}" if isinstance(end, float) else f"{name} {end}" for name, end in ends.items()]
    return f"At n = {n} the median excess risk after training is: {', '.join(parts)}."


def _draws(results: Results, setting: Any, quantity: str) -> np.ndarray:
    return results.samples[setting].get(quantity, np.empty(0))


def _along(results: Results, field: str, **fields: Any) -> Iterator[tuple[Any, list[Any]]]:
    """Settings that differ in one field only, in groups of two and more, sorted by it."""
    groups: dict[Any, list[Any]] = {}
    for setting in results.where(**fields):
        record = tuple((f.name, getattr(setting, f.name)) for f in dataclasses.fields(setting) if f.name != field)
        groups.setdefault(record, []).append(setting)
    for members in groups.values():
        if len(members) > 1:
            yield members[0], sorted(members, key=lambda s: getattr(s, field))


def _label(setting: Any) -> str:
    parts = [f"{setting.optimizer}, {setting.start} start, regulariser {setting.regularizer}"]
    if setting.contexts == "n":
        parts.append("n contexts")
    if setting.condition != 10:
        parts.append(f"kappa(Sigma) = {setting.condition:g}")
    if setting.tau != 4 * setting.largest:
        parts.append(f"tau = {setting.tau:g}")
    return ", ".join(parts)


def _scaling(results: Results) -> Iterator[Claim]:
    for first, group in _along(results, "n"):
        x = [s.n for s in group]
        one = first.contexts == "one"
        if first.optimizer in OWN and len(group) >= 3:
            draws = [_draws(results, s, "excess_risk") for s in group]
            for power, expected in ((-1.0, "supported" if one else None), (-2.0, "contradicted" if one else None)):
                yield exponent_claim(
                    f"{_label(first)}: excess falls like n^{power:g}" + ("" if one else " up to logarithms"),
                    x,
                    draws,
                    predicted=power,
                    tolerance=0.25 if one else 0.45,
                    expected=expected,
                    source=SOURCE if power == -1 else "goel2026 (v1: n^-2 log^6 n)",
                )
        if first.start == "spectral" and first.optimizer == "preconditioned" and len(group) >= 3:
            failed = np.concatenate([_draws(results, s, "start_failed") for s in group])
            claim = exponent_claim(
                f"{_label(first)}: squared distance of the start to the minima falls like 1/n",
                x,
                [_draws(results, s, "start_distance_squared") for s in group],
                predicted=-1.0 if one else -2.0,
                tolerance=0.25,
                expected="supported",
                source=SOURCE,
            )
            shares = ", ".join(f"{np.mean(_draws(results, s, 'start_failed')):.2g} at n = {s.n}" for s in group)
            yield dataclasses.replace(
                claim, detail=f"{claim.detail}; starts farther than sqrt(s_d)/2: {shares} ({failed.size} draws)"
            )


def _levels(results: Results) -> Iterator[Claim]:
    """Closed forms of the level, over all sizes n >= 1000 together: measured over law."""
    laws: dict[str, Any] = {
        "start_excess": spectral_start_excess,
        "start_distance_squared": spectral_start_distance_squared,
        "excess_risk": learned_excess,
    }
    seen = set()
    for setting in results.where(optimizer="preconditioned", start="spectral", regularizer="on", contexts="one"):
        group = dataclasses.replace(setting, n=setting.width)
        if group in seen:
            continue
        seen.add(group)
        for quantity, law in laws.items():
            ratios = []
            for other in results.settings:
                if dataclasses.replace(other, n=other.width) == group and other.n >= 1000:
                    extra: dict[str, Any] = {"tau": other.tau} if quantity == "excess_risk" else {}
                    value = law(other.singular_values, other.width, other.n, noise=other.noise, **extra)
                    ratio = other.tau / other.largest
                    if value is not None and 4 * (1 - 1e-9) <= ratio and ratio**2 <= other.n / 20:
                        ratios.append(_draws(results, other, quantity) / value)
            if ratios:
                yield _ratio_claim(
                    f"{_label(group)}: {quantity} over its closed form", np.concatenate(ratios), tolerance=0.1
                )


def _ratio_claim(claim: str, ratios: np.ndarray, *, tolerance: float) -> Claim:
    """A mean that should be one."""
    estimate = Estimate.from_draws(ratios[np.isfinite(ratios)], "mean")
    if estimate.interval is None:
        return Claim(claim, "n", 1.0, estimate.value, None, "supported", "undecided", SOURCE, "needs two draws")
    low, high = estimate.interval
    verdict = "undecided"
    if 1 - tolerance <= low and high <= 1 + tolerance:
        verdict = "supported"
    elif high < 1 - tolerance or low > 1 + tolerance:
        verdict = "contradicted"
    detail = f"mean ratio over {ratios.size} draws at n >= 1000; tolerance {tolerance:.0%}"
    return Claim(claim, "n", 1.0, estimate.value, (low, high), "supported", verdict, SOURCE, detail)


def _factor_claim(
    claim: str, along: str, above: np.ndarray, below: np.ndarray, *, expected: str | None, source: str = SOURCE
) -> Claim | None:
    """Whether `above` exceeds `below`, by the geometric mean of their ratio over the same draws, 95 % interval."""
    count = min(len(above), len(below))
    good = np.isfinite(above[:count]) & np.isfinite(below[:count])
    if good.sum() < 2:
        return None
    logs = np.log(above[:count][good] / below[:count][good])
    # Student's t on the logarithms, which are near normal; a hopeless interval ends at the largest float
    half = float(student.ppf(0.975, logs.size - 1)) * float(np.std(logs, ddof=1)) / np.sqrt(logs.size)
    centre = float(logs.mean())
    low, high = np.exp(np.clip([centre - half, centre + half], -700, 700))
    verdict = "supported" if low > 1 else "contradicted" if high < 1 else "undecided"
    detail = (
        f"geometric mean of the ratio over {good.sum()} paired draws, {count - good.sum()} diverged; supported above 1"
    )
    value = float(np.exp(centre))
    return Claim(claim, along, None, value, (float(low), float(high)), expected, verdict, source, detail)


def _rivals(results: Results) -> Iterator[Claim]:
    """Final excess of each rival over that of Algorithm 1, at the largest n, each from its natural start."""
    for _, group in _along(results, "n", optimizer="preconditioned", start="spectral", regularizer="on"):
        own = group[-1]
        for rival in results.where(n=own.n, condition=own.condition, contexts=own.contexts, tau=own.tau):
            if rival.optimizer not in OWN and rival.start != "spectral" and rival.regularizer == "off":
                claim = _factor_claim(
                    f"{rival.optimizer}, {rival.start} start, ends above Algorithm 1 at n = {own.n}",
                    "optimizer",
                    _draws(results, rival, "excess_risk"),
                    _draws(results, own, "excess_risk"),
                    expected="supported" if rival.optimizer in ("gd", "sgd") else None,
                )
                if claim is not None:
                    yield claim


def _stuck(results: Results) -> Iterator[Claim]:
    """Of the runs that had not converged: which share had come to rest, at a saddle or a spurious minimum?"""
    for optimizer in dict.fromkeys(s.optimizer for s in results.settings if s.optimizer not in OWN):
        kinds = {
            kind: sum(float(np.nansum(_draws(results, s, kind))) for s in results.where(optimizer=optimizer))
            for kind in ("slow", "saddle", "spurious_minimum", "converged")
        }
        stalled = kinds["slow"] + kinds["saddle"] + kinds["spurious_minimum"]
        if stalled == 0:
            continue
        stuck = kinds["saddle"] + kinds["spurious_minimum"]
        low = float(beta.ppf(0.025, stuck, stalled - stuck + 1)) if stuck else 0.0
        high = float(beta.ppf(0.975, stuck + 1, stalled - stuck)) if stuck < stalled else 1.0
        verdict = "supported" if low > 0.5 else "contradicted" if high < 0.5 else "undecided"
        counts = ", ".join(f"{name.replace('_', ' ')} {int(count)}" for name, count in kinds.items())
        yield Claim(
            f"{optimizer} gets stuck: most runs that did not converge rest at a saddle or spurious minimum",
            "optimizer",
            None,
            stuck / stalled,
            (low, high),
            "contradicted" if optimizer == "sgd" else None,
            verdict,
            "goel2026, appendix A (SGD slow or stuck)",
            f"runs: {counts}; by gradient norm and least Hessian eigenvalue, Clopper-Pearson interval",
        )


INGREDIENTS = {
    "start": ("spectral", "random"),
    "regularizer": ("on", "off"),
    "optimizer": ("preconditioned", "gd"),
}


def _ingredients(results: Results) -> Iterator[Claim]:
    """What the spectral start, the regulariser and the preconditioner buy, each with the other two on or off."""
    for field, (with_it, without) in INGREDIENTS.items():
        others = [name for name in INGREDIENTS if name != field]
        for present in itertools.product(*(INGREDIENTS[name] for name in others)):
            fixed = dict(zip(others, present, strict=True))
            for having in results.where(**fixed, **{field: with_it}):
                lacking = dataclasses.replace(having, **{field: without})
                if lacking not in results.samples:
                    continue
                shown = ", ".join(f"{name} {value}" for name, value in fixed.items())
                claim = _factor_claim(
                    f"n = {having.n}, {shown}: {field} {without} ends above {with_it}",
                    field,
                    _draws(results, lacking, "excess_risk"),
                    _draws(results, having, "excess_risk"),
                    expected=None,
                )
                if claim is not None:
                    yield claim


def _sensitivity(results: Results) -> Iterator[Claim]:
    """Final excess at the largest over that at the smallest condition number of the covariance."""
    for first, group in _along(results, "condition"):
        low, high = group[0], group[-1]
        own = first.optimizer in OWN and first.start == "spectral"
        claim = _factor_claim(
            f"n = {first.n}, {first.optimizer}, {first.start} start: "
            f"kappa(Sigma) = {high.condition:g} ends above {low.condition:g}",
            "condition",
            _draws(results, high, "excess_risk"),
            _draws(results, low, "excess_risk"),
            expected=None if own else "supported" if first.optimizer == "gd" else None,
        )
        if claim is not None:
            yield claim


def _balance(results: Results) -> Iterator[Claim]:
    """The tau with the least error on fresh prompts, against the closed form; the grid of the sweep decides how finely."""
    for first, group in _along(results, "tau", optimizer="preconditioned", start="spectral", contexts="one"):
        if len(group) < 3:
            continue
        means = [float(np.nanmean(_draws(results, s, "prompt_error"))) for s in group]
        at = int(np.argmin(means))
        near = (group[max(at - 1, 0)].tau, group[min(at + 1, len(group) - 1)].tau)
        best = best_tau(first.singular_values)
        verdict = "supported" if near[0] <= best <= near[1] else "contradicted"
        listed = ", ".join(f"{s.tau:g}: {mean:.2g}" for s, mean in zip(group, means, strict=True))
        yield Claim(
            f"n = {first.n}: fresh prompts are answered best near tau = {best:.3g}",
            "tau",
            best,
            float(group[at].tau),
            near,
            "supported",
            verdict,
            SOURCE,
            f"mean error by tau: {listed}; the interval spans the neighbours of the best tau",
        )


def _divergence(results: Results) -> Iterator[Claim]:
    for setting, arrays in results.samples.items():
        steps = arrays["diverged_at_step"]
        gone = np.isfinite(steps)
        if gone.any():
            yield Claim(
                f"n = {setting.n}, {_label(setting)}: converges",
                "draw",
                1.0,
                float(1 - gone.mean()),
                None,
                None,
                "contradicted",
                "measured",
                f"diverged at step {int(np.median(steps[gone]))} in {int(gone.sum())} of {gone.size} draws",
            )
