"""What a residual connection does and does not guarantee at initialisation, and how attention alone collapses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from rmt.statistics.claims import Claim, exponent_claim
from rmt.theorems.residual import COLLAPSE, ROUNDING, SOURCE, score_deviation
from simulations.claims.residual_groups import draws_of, in_every_draw, scales

if TYPE_CHECKING:
    from rmt.experiments.results import Results


def all_claims(results: Results) -> list[Claim]:
    """Every claim that the settings of this sweep can speak to."""
    return [*_linear(results), *_collapse(results), *_better(results), *_lower_bound(results), *_full_rank(results)]


def _words(setting: Any) -> str:
    tokens = "independent tokens" if setting.correlation == 0 else f"tokens of correlation {setting.correlation:g}"
    parts = [f"n = {setting.n}, d = {setting.width}", tokens]
    return ", ".join([*parts, f"{setting.scaling} scores"] if setting.scaling != "standard" else parts)


def _linear(results: Results) -> Iterator[Claim]:
    """s_min grows like the skip scale (where the rows of attention itself do not count)."""
    for group in results.along("skip_scale", values="gaussian"):
        kept = [s for s in group if s.skip_scale >= 0.25]
        if len(kept) >= 3 and kept[0].n <= 0.8 * kept[0].width:
            yield exponent_claim(
                f"{_words(kept[0])}: s_min grows like the skip scale",
                [s.skip_scale for s in kept],
                [draws_of(results, s, "smallest_singular_value") for s in kept],
                predicted=1.0,
                tolerance=0.05,
                along="skip_scale",
                expected="supported" if kept[0].n >= 64 else None,
                source=SOURCE,
            )


def _collapse(results: Results) -> Iterator[Claim]:
    """Without the skip, s_2/s_1 against the head dimension; expected where scores deviate by at most 1."""
    for group in results.along("head_dim", least=3, skip_scale=0.0, values="gaussian"):
        first = group[0]
        if first.scaling not in COLLAPSE:
            continue
        small = score_deviation(first.scaling, width=first.width, head_dim=first.head_dim) <= 1
        power = COLLAPSE[first.scaling]
        yield exponent_claim(
            f"{_words(first)}: s_2/s_1 of attention alone goes like d_k^{power:g}",
            [s.head_dim for s in group],
            [draws_of(results, s, "gap_ratio") for s in group],
            predicted=power,
            tolerance=0.1 if power == 0 else 0.15,
            along="head_dim",
            expected="supported" if small and first.head_dim >= first.width else None,
            source=SOURCE,
        )


def _better(results: Results) -> Iterator[Claim]:
    """On the same draws, no skip lowers s_min."""
    for group in results.along("skip_scale", values="gaussian"):
        if group[0].skip_scale == 0:
            alone = draws_of(results, group[0], "smallest_singular_value")
            ratios = [draws_of(results, s, "smallest_singular_value") / alone for s in group[1:]]
            yield in_every_draw(
                f"{_words(group[0])}: no skip of {scales(group[1:])} lowers s_min",
                ratios,
                expected="supported" if group[1].skip_scale >= 0.25 else None,
                source=SOURCE,
            )


def _lower_bound(results: Results) -> Iterator[Claim]:
    """The stronger statement fails: attention can take away from what the skip brings."""
    for group in results.along("skip_scale", least=1, values="gaussian"):
        kept = [s for s in group if s.skip_scale > 0]
        if kept:
            yield in_every_draw(
                f"{_words(kept[0])}: s_min is at least skip s_min(X) for a skip of {scales(kept)}",
                [draws_of(results, s, "smallest_over_tokens") for s in kept],
                expected="contradicted" if kept[0].n >= 64 else None,
                source=SOURCE,
            )


def _full_rank(results: Results) -> Iterator[Claim]:
    """The counterexample W_V = -skip_scale I."""
    for setting in results.where(values="opposed"):
        if setting.skip_scale > 0:
            yield in_every_draw(
                f"{_words(setting)}: Z has full rank whenever X has, also for W_V = -{setting.skip_scale:g} I",
                [draws_of(results, setting, "inverse_condition_number") / ROUNDING],
                expected="contradicted",
                source=SOURCE,
            )


def sentence(results: Results) -> str:
    """Condition numbers with and without the skip at the largest n."""
    n = max(s.n for s in results.settings)

    def median(settings: Iterable[Any]) -> str:
        return ", ".join(
            f"{np.nanmedian(1 / np.maximum(draws_of(results, s, 'inverse_condition_number'), 1e-16)):.3g} at {s.skip_scale:g}"
            for s in settings
        )

    found = results.where(n=n, values="gaussian", correlation=min(s.correlation for s in results.settings))
    first = [
        s for s in found if (s.width, s.head_dim, s.scaling) == (found[0].width, found[0].head_dim, found[0].scaling)
    ]
    return f"At n = {n} the median condition number by skip scale is {median(first)}." if found else ""
