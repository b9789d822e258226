"""What training says: global minimum, stall, effect of the skip, induction of the proof, rate, depth."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from rmt.statistics.claims import Claim, bound_claim
from rmt.theorems.residual_convergence import SOURCE
from simulations.claims.residual_groups import draws_of, in_every_draw, mostly, scales

if TYPE_CHECKING:
    from rmt.experiments.results import Results

GOAL = 1e-10  # loss over its start that counts as the global minimum
SKIP = 0.25  # skip scales from which on the paper's statements are expected to hold


def all_claims(results: Results) -> list[Claim]:
    """Every claim that the settings of this sweep can speak to."""
    found: list[Claim] = []
    for group in results.along("skip_scale", least=1):
        kept = [s for s in group if s.skip_scale >= SKIP]
        if group[0].data != "sentences":
            if kept:
                found += [_global_minimum(results, kept), _linear_rate(results, kept), *_induction(results, kept)]
            if group[0].skip_scale == 0:
                found += [_global_minimum(results, group[:1]), _linear_rate(results, group[:1])]
        found += [*_monotone(results, group), *_stall(results, group), *_conditioning(results, kept)]
    found += [_deeper(results, group) for group in results.along("depth")]
    return found + [claim for group in results.along("skip_scale") for claim in _collapse(results, group)]


def sentence(results: Results) -> str:
    """Median loss over its start at the end of training, by data and skip scale, and what of the paper's words on depth holds."""
    parts = []
    for group in results.along("skip_scale", least=1):
        ends = [np.nanmedian(draws_of(results, s, "final_loss_ratio")) for s in group if _defined(results, s)]
        if ends:
            depth = f", depth {group[0].depth}" if group[0].depth > 1 else ""
            parts.append(f"{group[0].data}{depth}: " + ", ".join(f"{end:.1e}" for end in ends))
    named = scales(next(results.along("skip_scale", least=1)))
    losses = f"Median final loss over the first one, skip scale {named}: " + "; ".join(parts) + "."
    return " ".join([losses, *_depth_words(results)])


def _depth_words(results: Results) -> Iterator[str]:
    """The paper's statements on depth, sorted by what these draws say of them."""
    deep = [group for group in results.along("skip_scale") if group[0].depth > 1 and group[0].skip_scale == 0]
    statements = {
        "with a skip the tokens keep their rank": [c for group in deep for c in _collapse(results, group)],
        "a skip lowers the loss": [_lowered(results, group) for group in deep],
        "with a skip deeper networks end at a lower loss": [
            _deeper(results, group) for group in results.along("depth") if group[0].skip_scale >= SKIP
        ],
    }
    for verdict, words in (("supported", "Reproduced"), ("contradicted", "Not reproduced"), ("undecided", "Left open")):
        lines = []
        for statement, found in statements.items():
            where = [claim.claim.split(":")[0] for claim in found if claim.verdict == verdict]
            lines += [f"{statement} ({'; '.join(where)})"] if where else []
        if lines:
            yield f"{words}: {', '.join(lines)}."


def _defined(results: Results, setting: Any) -> bool:
    return bool(np.isfinite(draws_of(results, setting, "final_loss_ratio")).any())


def _words(setting: Any, *, scale: bool = False) -> str:
    parts = [f"{setting.data} data"]
    if setting.data == "correlated":
        parts[0] = f"tokens of correlation {setting.correlation:g}"
    if setting.depth > 1:
        parts.append(f"depth {setting.depth}")
    parts += [f"{setting.norm}-norm"] if setting.norm != "none" else []
    parts += [f"{setting.heads} heads"] if setting.heads > 1 else []
    parts += ["Adam"] if setting.optimizer == "adam" else []
    parts += [f"skip {setting.skip_scale:g}"] if scale else []
    return ", ".join(parts)


def _plain(setting: Any) -> bool:
    """Whether the paper's statement about one layer and gradient descent is meant, and expected."""
    return setting.data == "iid" and setting.optimizer == "gd" and setting.depth == 1 and setting.rate <= 0.5


def _global_minimum(results: Results, group: list[Any]) -> Claim:
    ratios = [GOAL / draws_of(results, s, "final_loss_ratio") for s in group]
    return in_every_draw(
        f"{_words(group[0])}, skip {scales(group)}: the loss falls below {GOAL:g} of its start in {group[0].steps} steps",
        ratios,
        expected="supported" if _plain(group[0]) and group[0].skip_scale >= SKIP else None,
        source=SOURCE,
    )


def _linear_rate(results: Results, group: list[Any]) -> Claim:
    growth = max(float(np.nanmax(draws_of(results, s, "sharpness_growth"))) for s in group)
    return in_every_draw(
        f"{_words(group[0])}, skip {scales(group)}: no step is slower than 1 - mu lambda_min of the first tangent kernel "
        f"(sharpness grew up to {growth:.2g} times)",
        [draws_of(results, s, "worst_step_over_bound") for s in group],
        expected="supported" if _plain(group[0]) and group[0].skip_scale >= SKIP else None,
        source=SOURCE,
    )


def _induction(results: Results, group: list[Any]) -> list[Claim]:
    """What the proof carries from step to step; at these sizes nothing forces it, so nothing is expected."""
    return [
        in_every_draw(
            f"{_words(group[0])}, skip {scales(group)}: {name} stays above half its start",
            [2 * draws_of(results, s, quantity) for s in group],
            expected=None,
            source=SOURCE,
        )
        for name, quantity in (
            ("s_min of the attention output", "smallest_floor"),
            ("lambda_min of the tangent kernel", "tangent_floor"),
        )
    ]


def _monotone(results: Results, group: list[Any]) -> Iterator[Claim]:
    """Loss after a fixed number of steps against the skip scale: draw by draw, and from one end to the other."""
    if len(group) < 2 or group[0].data == "iid":
        return
    ends = [draws_of(results, s, "final_loss_ratio") for s in group]
    yield mostly(
        f"{_words(group[0])}, {group[0].steps} steps: every larger skip of {scales(group)} ends at a lower loss, "
        "in most draws",
        [one > other for one, other in itertools.pairwise(ends)],
        along="skip_scale",
        expected=_lower_expected(group[0]),
        source=SOURCE,
    )
    yield _lowered(results, group)


def _lowered(results: Results, group: list[Any]) -> Claim:
    """Loss with the largest skip against the smallest."""
    first, last = group[0], group[-1]
    return bound_claim(
        f"{_words(first)}, {first.steps} steps: skip {last.skip_scale:g} ends at a lower loss than {first.skip_scale:g}",
        [last.skip_scale],
        [draws_of(results, first, "final_loss_ratio") / draws_of(results, last, "final_loss_ratio")],
        bound=1.0,
        side="lower",
        along="skip_scale",
        expected=_lower_expected(first),
        source=SOURCE,
        statistic="median",
    )


def _lower_expected(setting: Any) -> str | None:
    known = setting.data == "weather" and setting.depth == 1 and setting.optimizer == "gd"
    return "supported" if known else None


def _stall(results: Results, group: list[Any]) -> Iterator[Claim]:
    """Correlated tokens stall without the skip."""
    by_scale = {s.skip_scale: s for s in group}
    if group[0].data == "correlated" and {0.0, 1.0} <= set(by_scale):
        without, with_it = (draws_of(results, by_scale[scale], "final_loss_ratio") for scale in (0.0, 1.0))
        yield bound_claim(
            f"{_words(group[0])}: without the skip the loss ends at least 10 times higher",
            [1.0],
            [without / with_it],
            bound=10.0,
            side="lower",
            along="skip_scale",
            expected="supported" if group[0].optimizer == "gd" and group[0].depth == 1 else None,
            source=SOURCE,
            statistic="median",
        )


def _conditioning(results: Results, group: list[Any]) -> Iterator[Claim]:
    """log rate = a + b log s_min + c log s_max over skip scales and draws; the draw is the unit of the error."""
    if len(group) < 3 or group[0].data == "sentences":
        return
    names = ("mean_rate", "smallest_singular_value", "largest_singular_value")
    columns = [np.stack([draws_of(results, s, name) for s in group], axis=1) for name in names]
    if len(columns[0]) < 4 or not all(np.isfinite(column).all() and (column > 0).all() for column in columns):
        return
    columns = [np.log(column) for column in columns]
    coefficients, errors = _regression(columns[0], np.stack(columns[1:], axis=-1))
    for at, (name, sign) in enumerate((("s_min", 1), ("s_max", -1))):
        half = -float(special.stdtrit(len(columns[0]) - 1, 0.025)) * errors[at]
        low, high = float(coefficients[at] - half), float(coefficients[at] + half)
        verdict = "undecided"
        if sign * low > 0 and sign * high > 0:
            verdict = "supported"
        elif sign * low < 0 and sign * high < 0:
            verdict = "contradicted"
        yield Claim(
            f"{_words(group[0])}: the rate {'grows' if sign > 0 else 'falls'} with {name} of the attention output, "
            f"{'s_max' if sign > 0 else 's_min'} held",
            "draw",
            None,
            float(coefficients[at]),
            (low, high),
            "supported" if sign > 0 and _plain(group[0]) else None,
            verdict,
            SOURCE,
            f"slope of log rate; {len(columns[0])} draws at skip {scales(group)}, jackknife over draws",
        )


def _regression(y: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Slopes of y (draws, settings) on x (draws, settings, k), with standard errors by leaving out one draw at a time."""

    def slopes(kept: np.ndarray) -> np.ndarray:
        design = np.concatenate([np.ones((*x[kept].shape[:2], 1)), x[kept]], axis=-1).reshape(-1, x.shape[-1] + 1)
        return np.linalg.lstsq(design, y[kept].ravel(), rcond=None)[0][1:]

    draws = len(y)
    left_out = np.array([slopes(np.arange(draws) != at) for at in range(draws)])
    spread = np.sqrt((draws - 1) / draws * np.sum((left_out - left_out.mean(axis=0)) ** 2, axis=0))
    return slopes(np.arange(draws) >= 0), spread


def _deeper(results: Results, group: list[Any]) -> Claim:
    """Whether more layers end lower."""
    ends = [draws_of(results, s, "final_loss_ratio") for s in group]
    words = _words(group[0], scale=True).replace(f", depth {group[0].depth}", "")
    return mostly(
        f"{words}: every deeper network of {', '.join(str(s.depth) for s in group)} layers ends at a lower loss "
        f"after {group[0].steps} steps, in most draws",
        [one > other for one, other in itertools.pairwise(ends)],
        along="depth",
        expected=None,
        source=SOURCE,
    )


def _collapse(results: Results, group: list[Any]) -> Iterator[Claim]:
    """Tokens of deep networks at initialisation: s_2/s_1 with the skip against without it."""
    if group[0].skip_scale == 0 and group[0].depth > 1:
        alone = draws_of(results, group[0], "token_gap_ratio")
        yield in_every_draw(
            f"{_words(group[0])}: a skip of {scales(group[1:])} keeps s_2/s_1 of the last tokens 10 times higher",
            [draws_of(results, s, "token_gap_ratio") / (10 * np.maximum(alone, 1e-300)) for s in group[1:]],
            expected="supported" if group[1].skip_scale >= SKIP and group[0].norm == "none" else None,
            source=SOURCE,
        )
