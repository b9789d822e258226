"""Settings of the residual experiments side by side, and statements that every draw must keep."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import stats

from rmt.statistics.claims import CONTRADICTION_LEVEL, Claim, verdict_of

if TYPE_CHECKING:
    from rmt.experiments.results import Results

ENOUGH = 8  # draws from which on draws without exception support a statement


def in_every_draw(claim: str, ratios: Iterable[np.ndarray], *, expected: str | None, source: str) -> Claim:
    """A statement that every draw must keep (ratio >= 1), whatever the setting: one exception contradicts it.

    One array of ratios over the same draws for each setting. `measured` is the smallest ratio, `interval` the range of the
    worst ones of each draw. From 8 draws on, draws that all keep the statement support it, as far as they can: the detail
    bounds the share of exceptions. Undefined ratios are left out and counted.
    """
    worst_of_draw = np.min(np.stack(list(ratios)), axis=0)
    finite = worst_of_draw[np.isfinite(worst_of_draw)]
    undefined = worst_of_draw.size - finite.size
    if finite.size == 0:
        return Claim(claim, "draw", 1.0, None, None, expected, "undecided", source, "no defined draws")
    low, high, broken = float(finite.min()), float(finite.max()), int(np.sum(finite < 1))
    verdict = "contradicted" if broken else "supported" if finite.size >= ENOUGH and not undefined else "undecided"
    detail = f"broken in {broken} of {finite.size} draws, median of their worst ratios {np.median(finite):.3g}"
    if not broken:
        detail += f"; exceptions are rarer than {1 - 0.05 ** (1 / finite.size):.2g} (95 %)"
    if undefined:
        detail += f"; {undefined} draws undefined"
    return Claim(claim, "draw", 1.0, low, (low, high), expected, verdict, source, detail)


def mostly(claim: str, happened: Sequence[np.ndarray], *, along: str, expected: str | None, source: str) -> Claim:
    """Several things that each happen in more than half of all draws, by the sign test; one boolean array for each.

    `measured` is the smallest share, `interval` its exact 95 % interval (Clopper and Pearson). Supported: every share is
    above one half at 95 %, contradicted: one is below it at 1e-3, both one-sided and shared by the things. No law of the
    draws is assumed: losses of training runs differ by orders of magnitude from draw to draw.
    """
    draws = min(len(one) for one in happened)
    counts = [int(np.sum(one[:draws])) for one in happened]

    def beyond(level: float, side: Literal["greater", "less"]) -> list[bool]:
        return [stats.binomtest(count, draws, 0.5, side).pvalue <= level / len(counts) for count in counts]

    verdict = verdict_of(all(beyond(0.05, "greater")), any(beyond(CONTRADICTION_LEVEL, "less")))
    ends = stats.binomtest(min(counts), draws).proportion_ci(0.95)
    return Claim(
        claim,
        along,
        0.5,
        min(counts) / draws,
        (float(ends.low), float(ends.high)),
        expected,
        verdict,
        source,
        f"{', '.join(map(str, counts))} of {draws} draws",
    )


def draws_of(results: Results, setting: Any, quantity: str) -> np.ndarray:
    """The draws of a quantity."""
    return results.samples[setting][quantity]


def scales(group: list[Any]) -> str:
    """The skip scales of a group, in words."""
    return ", ".join(f"{s.skip_scale:g}" for s in group)
