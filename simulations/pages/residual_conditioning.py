"""The page of residual_conditioning: extreme singular values against the skip scale; and its claims."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from rmt import figures
from rmt.statistics.claims import Claim, exponent_claim
from rmt.statistics.estimate import Estimate
from rmt.theorems.residual import COLLAPSE, ROUNDING, SOURCE, score_deviation

if TYPE_CHECKING:
    from rmt.experiments.results import Results

SHOWN = 4  # series per panel


def page(results: Results) -> Any:
    """Three panels for independent tokens, or for the first correlation there is; attention alone is the dotted level."""
    correlation = min(s.correlation for s in results.settings)
    groups = list(groups_along(results, "skip_scale", least=1, correlation=correlation))[:SHOWN]
    panels = {
        "smallest_singular_value": "Smallest singular value of Attn(X) + skip X",
        "largest_singular_value": "Largest singular value",
        "condition_number": "Condition number",
    }
    with figures.style():
        figure, axes = figures.page(len(panels), 1, width=7.6, height=2.5)
        for ax, (quantity, text) in zip(axes[:, 0], panels.items(), strict=True):
            curves, points = [], []
            for group in groups:
                kept = [s for s in group if s.skip_scale > 0]
                if kept:
                    curves.append(_theory(results, kept, quantity))
                    points.append(_measured(results, kept, quantity))
            figures.scaling(ax, curves, points, xlabel="skip scale", ylabel=quantity.replace("_", " "))
            for number, group in enumerate(groups):
                _without(ax, results, group, quantity, number)
            scales = sorted({s.skip_scale for s in results.settings if s.skip_scale > 0})
            ax.set_xticks(scales, [f"{scale:g}" for scale in scales])
            ax.minorticks_off()
            figures.legend(ax)
            figures.title(ax, text)
        figure.suptitle(f"Residual attention at initialisation, token correlation {correlation:g}", x=0.02, ha="left")
    return figure


def _label(setting: Any) -> str:
    return f"n = {setting.n}, d = {setting.width}"


def _theory(results: Results, group: list[Any], quantity: str) -> figures.Curve:
    predict = results.experiment.predict
    assert predict is not None
    scales = np.geomspace(group[0].skip_scale, group[-1].skip_scale, 40)
    table = np.full((3, scales.size), np.nan)
    for at, scale in enumerate(scales):
        prediction = predict(dataclasses.replace(group[0], skip_scale=float(scale))).get(quantity)
        if prediction is not None and prediction.in_range and prediction.band:
            table[:, at] = prediction.value, *prediction.band
    return figures.Curve(_label(group[0]), scales, *table)


def _measured(results: Results, group: list[Any], quantity: str) -> figures.Points:
    rows = []
    for setting in group:
        estimate = Estimate.from_draws(results.samples[setting][quantity], "median")
        if estimate.value is not None:
            rows.append((setting.skip_scale, estimate.value, *(estimate.interval or (estimate.value, estimate.value))))
    return figures.Points(_label(group[0]), *np.array(rows, dtype=float).reshape(-1, 4).T)


def _without(ax: Any, results: Results, group: list[Any], quantity: str, number: int) -> None:
    """A dotted level: attention without the skip connection."""
    alone = [s for s in group if s.skip_scale == 0]
    look = list(figures.looks([str(at) for at in range(number + 1)]).values())[number]
    if alone and np.isfinite(results.samples[alone[0]][quantity]).any():
        level = float(np.nanmedian(results.samples[alone[0]][quantity]))
        label = "no skip, " + _label(alone[0])
        ax.axhline(level, color=look["color"], linestyle=(0, (1, 3)), linewidth=1, label=label)


def groups_along(results: Results, field: str, *, least: int = 2, **fields: Any) -> Iterator[list[Any]]:
    """Settings that differ in one field only, sorted by it, in groups of at least `least`."""
    groups: dict[Any, list[Any]] = {}
    for setting in results.where(**fields):
        record = tuple((f.name, getattr(setting, f.name)) for f in dataclasses.fields(setting) if f.name != field)
        groups.setdefault(record, []).append(setting)
    for members in groups.values():
        if len(members) >= least:
            yield sorted(members, key=lambda s: getattr(s, field))


def all_claims(results: Results) -> list[Claim]:
    """Every claim that the settings of this sweep can speak to."""
    return [*_linear(results), *_collapse(results), *_better(results), *_lower_bound(results), *_full_rank(results)]


def _words(setting: Any) -> str:
    tokens = "independent tokens" if setting.correlation == 0 else f"tokens of correlation {setting.correlation:g}"
    parts = [f"n = {setting.n}, d = {setting.width}", tokens]
    return ", ".join([*parts, f"{setting.scaling} scores"] if setting.scaling != "standard" else parts)


def _draws(results: Results, setting: Any, quantity: str) -> np.ndarray:
    return results.samples[setting][quantity]


def _linear(results: Results) -> Iterator[Claim]:
    """s_min grows like the skip scale (where the rows of attention itself do not count)."""
    for group in groups_along(results, "skip_scale", values="gaussian"):
        kept = [s for s in group if s.skip_scale >= 0.25]
        if len(kept) >= 3 and kept[0].n <= 0.8 * kept[0].width:
            yield exponent_claim(
                f"{_words(kept[0])}: s_min grows like the skip scale",
                [s.skip_scale for s in kept],
                [_draws(results, s, "smallest_singular_value") for s in kept],
                predicted=1.0,
                tolerance=0.05,
                along="skip_scale",
                expected="supported" if kept[0].n >= 64 else None,
                source=SOURCE,
            )


def _collapse(results: Results) -> Iterator[Claim]:
    """Without the skip, s_2/s_1 against the head dimension; expected where scores deviate by at most 1."""
    for group in groups_along(results, "head_dim", least=3, skip_scale=0.0, values="gaussian"):
        first = group[0]
        if first.scaling not in COLLAPSE:
            continue
        small = score_deviation(first.scaling, width=first.width, head_dim=first.head_dim) <= 1
        power = COLLAPSE[first.scaling]
        yield exponent_claim(
            f"{_words(first)}: s_2/s_1 of attention alone goes like d_k^{power:g}",
            [s.head_dim for s in group],
            [_draws(results, s, "gap_ratio") for s in group],
            predicted=power,
            tolerance=0.1 if power == 0 else 0.15,
            along="head_dim",
            expected="supported" if small and first.head_dim >= first.width else None,
            source=SOURCE,
        )


def _better(results: Results) -> Iterator[Claim]:
    """On the same draws, no skip lowers s_min."""
    for group in groups_along(results, "skip_scale", values="gaussian"):
        if group[0].skip_scale == 0:
            alone = _draws(results, group[0], "smallest_singular_value")
            ratios = [_draws(results, s, "smallest_singular_value") / alone for s in group[1:]]
            yield _in_every_draw(
                f"{_words(group[0])}: no skip of {_scales(group[1:])} lowers s_min",
                ratios,
                expected="supported" if group[1].skip_scale >= 0.25 else None,
            )


def _lower_bound(results: Results) -> Iterator[Claim]:
    """The stronger statement fails: attention can take away from what the skip brings."""
    for group in groups_along(results, "skip_scale", least=1, values="gaussian"):
        kept = [s for s in group if s.skip_scale > 0]
        if kept:
            yield _in_every_draw(
                f"{_words(kept[0])}: s_min is at least skip s_min(X) for a skip of {_scales(kept)}",
                [_draws(results, s, "smallest_over_tokens") for s in kept],
                expected="contradicted" if kept[0].n >= 64 else None,
            )


def _scales(group: list[Any]) -> str:
    return ", ".join(f"{s.skip_scale:g}" for s in group)


def _full_rank(results: Results) -> Iterator[Claim]:
    """The counterexample W_V = -skip_scale I."""
    for setting in results.where(values="opposed"):
        if setting.skip_scale > 0:
            yield _in_every_draw(
                f"{_words(setting)}: Z has full rank whenever X has, also for W_V = -{setting.skip_scale:g} I",
                [_draws(results, setting, "inverse_condition_number") / ROUNDING],
                expected="contradicted",
            )


def _in_every_draw(claim: str, ratios: Iterable[np.ndarray], *, expected: str | None) -> Claim:
    """A statement that every draw must keep (ratio >= 1), whatever the setting: one exception contradicts it.

    `measured` is the smallest ratio, `interval` the range of them. From 8 draws on, draws that all keep the statement
    support it, as far as they can: the detail bounds the share of exceptions.
    """
    worst_of_draw = np.min(np.stack(list(ratios)), axis=0)
    finite = worst_of_draw[np.isfinite(worst_of_draw)]
    if finite.size == 0:
        return Claim(claim, "draw", 1.0, None, None, expected, "undecided", SOURCE, "no draws")
    low, high, broken = float(finite.min()), float(finite.max()), int(np.sum(finite < 1))
    verdict = "contradicted" if broken else "supported" if finite.size >= 8 else "undecided"
    detail = f"broken in {broken} of {finite.size} draws, median of their worst ratios {np.median(finite):.3g}"
    if not broken:
        detail += f"; exceptions are rarer than {1 - 0.05 ** (1 / finite.size):.2g} (95 %)"
    return Claim(claim, "draw", 1.0, low, (low, high), expected, verdict, SOURCE, detail)


def sentence(results: Results) -> str:
    """Condition numbers with and without the skip at the largest n."""
    n = max(s.n for s in results.settings)

    def median(settings: Iterable[Any]) -> str:
        return ", ".join(
            f"{np.nanmedian(1 / np.maximum(_draws(results, s, 'inverse_condition_number'), 1e-16)):.3g} at {s.skip_scale:g}"
            for s in settings
        )

    found = results.where(n=n, values="gaussian", correlation=min(s.correlation for s in results.settings))
    first = [
        s for s in found if (s.width, s.head_dim, s.scaling) == (found[0].width, found[0].head_dim, found[0].scaling)
    ]
    return f"At n = {n} the median condition number by skip scale is {median(first)}." if found else ""
