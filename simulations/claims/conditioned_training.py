"""The claims of conditioned_training: effects seed by seed, the paper's statements about training, its table, and the cost."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special, stats

from rmt.statistics.claims import CONTRADICTION_LEVEL, Claim, verdict_of
from rmt.statistics.estimate import Estimate

if TYPE_CHECKING:
    from rmt.experiments.results import Results

SINGULAR = 1e15  # kappa of a matrix that is singular up to rounding
PAPER = "spectral-conditioning"
CORRECTIONS = ("shift", "svd", "orthogonal_shared", "orthogonal_independent")
TABLE = (  # data set, model, measure, baseline, conditioned: section 5 of the paper
    ("ImageNet-1k", "ViT-B", "top-1", 80.7, 81.7),
    ("ImageNet-1k", "DeiT-B", "top-1", 81.6, 82.6),
    ("ImageNet-1k", "Swin-B (window attention)", "top-1", 83.4, 84.1),
    ("ImageNet-1k", "XCiT-M", "top-1", 82.6, 83.5),
    ("ImageNet-1k", "DaViT-B", "top-1", 84.3, 84.9),
    ("COCO", "XCiT-S, Mask R-CNN", "AP box", 44.9, 45.6),
    ("LRA ListOps", "Nystromformer", "accuracy", 37.1, 37.8),
    ("GLUE", "Crammed BERT", "mean", 78.6, 79.4),
)


@dataclasses.dataclass(frozen=True)
class Arm:
    """A variant at one horizon and architecture: its settings at every rate, and the one that validation chose."""

    chosen: Any
    rates: tuple[float, ...]

    def draws(self, results: Results, quantity: str) -> np.ndarray:
        return results.samples[self.chosen][quantity]

    @property
    def tuned(self) -> str:
        """The chosen rate, and whether a wider grid might have found a better one."""
        ends = (
            {self.rates[0]: ", the smallest tried", self.rates[-1]: ", the largest tried"}
            if len(self.rates) > 1
            else {}
        )
        return f"{self.chosen.rate:g}{ends.get(self.chosen.rate, '')}"

    @property
    def name(self) -> str:
        """The variant with what distinguishes it."""
        s = self.chosen
        parts = [s.variant.replace("_", " ")] + ([f"{s.shift:g}"] if s.shift is not None else [])
        parts += ["norm kept"] if s.keep_norm == "yes" else []
        parts += [f"on {s.corrected}"] if s.corrected != "qkv" else []
        return " ".join(parts)


def arms(results: Results) -> dict[Any, list[Arm]]:
    """Arms by everything that is not a variant (task, attention, norm, depth, steps, sizes); plain first.

    The rate is that of the best mean validation accuracy over the seeds: the same grid and the same seeds for every variant.
    """
    grouped: dict[Any, dict[Any, list[Any]]] = {}
    for setting in results.settings:
        own = (setting.variant, setting.shift, setting.keep_norm, setting.corrected)
        place = dataclasses.replace(setting, variant="none", rate=1.0, shift=None, keep_norm="no", corrected="qkv")
        grouped.setdefault(place, {}).setdefault(own, []).append(setting)
    found = {}
    for place, variants in grouped.items():
        listed = [
            Arm(
                max(settings, key=lambda s: np.mean(results.samples[s]["validation_accuracy"])),
                tuple(sorted(s.rate for s in settings)),
            )
            for settings in variants.values()
        ]
        found[place] = sorted(listed, key=lambda arm: arm.chosen.variant != "none")
    return found


def all_claims(results: Results) -> list[Claim]:
    """Every claim that the settings of this sweep can speak to, then the paper's table."""
    found: list[Claim] = []
    for place, group in arms(results).items():
        plain = next((arm for arm in group if arm.chosen.variant == "none"), None)
        if plain is not None:
            for arm in group:
                if arm is not plain:
                    found += _effects(results, place, plain, arm)
            found += _cost(results, place, plain, group)
        found += _predicts(results, place, group)
    found += _two_by_two(results)
    return [*found, *_table(results)]


def _where(place: Any) -> str:
    norm = {"pre": "pre-norm", "post": "post-norm", "none": "no norm"}[place.norm]
    return f"{place.task}, {place.attention}, {norm}, {place.depth} layers, {place.steps} steps"


def _effects(results: Results, place: Any, plain: Arm, arm: Arm) -> Iterator[Claim]:
    """Accuracy, loss, generalisation gap and speed against the plain model, seed by seed, each at its own best rate."""
    for quantity, words, sign in (
        ("test_accuracy", "raises the test accuracy", 1.0),
        ("test_loss", "lowers the test loss", -1.0),
        ("generalisation_gap", "lowers the generalisation gap (test loss - training loss)", -1.0),
        ("steps_to_goal", "needs fewer steps to half the loss of guessing", -1.0),
    ):
        change = arm.draws(results, quantity) - plain.draws(results, quantity)
        detail = f"change against plain, {change.size} seeds, {len(arm.rates)} rates each, chosen by validation"
        detail += f" ({arm.tuned}; plain {plain.tuned})"
        yield effect_claim(
            f"{_where(place)}: {arm.name} {words}", change, sign, PAPER if quantity == "test_accuracy" else "", detail
        )
    if arm.chosen.variant in CORRECTIONS:
        for quantity, words, sign in (
            ("_query_smallest", "raises sigma_min(W_Q) along training", 1.0),
            ("_query_condition", "lowers kappa(W_Q) along training", -1.0),
            ("_jacobian_condition_number", "lowers kappa(J) along training", -1.0),
        ):
            tables = [a.draws(results, quantity)[:, 1:] for a in (arm, plain)]
            lost = [int(np.isnan(table).sum()) for table in tables]
            logs = [np.log(np.where(np.isnan(table), SINGULAR, table)) for table in tables]
            change = (logs[0] - logs[1]).mean(axis=1)
            detail = "mean change of the logarithm over the probes after the start, first layer"
            if any(lost):
                detail += f"; a singular J counts as kappa = {SINGULAR:g}: {lost[0]} probes of it, {lost[1]} of plain"
            yield effect_claim(f"{_where(place)}: {arm.name} {words}", change, sign, f"{PAPER}, section 5", detail)


def effect_claim(claim: str, change: np.ndarray, sign: float, source: str, detail: str) -> Claim:
    """A paired change has the sign it is said to have: Student's interval wholly on that side (95 %), or on the other (1e-3)."""
    blank = Claim(claim, "seed", 0.0, None, None, None, "undecided", source or "this experiment", detail)
    if change.size < 2 or not np.isfinite(change).all():
        return blank
    estimate = Estimate.from_draws(change, "mean")
    mean, error, degrees = float(change.mean()), float(change.std(ddof=1) / np.sqrt(change.size)), change.size - 1
    if error == 0:
        return dataclasses.replace(
            blank, measured=mean, interval=(mean, mean), verdict=verdict_of(sign * mean > 0, sign * mean < 0)
        )
    inner, wide = (-float(special.stdtrit(degrees, tail / 2)) * error for tail in (0.05, CONTRADICTION_LEVEL))
    verdict = verdict_of(sign * mean - inner > 0, sign * mean + wide < 0)
    return dataclasses.replace(blank, measured=mean, interval=estimate.interval, verdict=verdict)


def _cost(results: Results, place: Any, plain: Arm, group: list[Arm]) -> Iterator[Claim]:
    """The paper's correction costs nothing: parameters, memory held for the backward pass, time of a step."""
    for arm in group:
        if arm.chosen.variant != "shift":
            continue
        ratios = {name: arm.draws(results, name) / plain.draws(results, name) for name in ("parameters", "_held_bytes")}
        ratios["_time_ratio"] = arm.draws(results, "_time_ratio")
        for name, words, room in (
            ("parameters", "adds no parameters", 0.0),
            ("_held_bytes", "holds within 1 % of the memory", 0.01),
            ("_time_ratio", "takes within 3 % of the time of a step", 0.03),
        ):
            ratio = ratios[name]
            if ratio.size < 2:
                continue
            low, high = Estimate.from_draws(ratio, "median").interval or (float(ratio.min()), float(ratio.max()))
            detail = (
                "steps taken in turn with the plain model; a small model shows the fixed cost of each weight"
                if name == "_time_ratio"
                else "bytes at the start of the backward pass"
                if room
                else ""
            )
            yield Claim(
                f"{_where(place)}: {arm.name} {words}",
                "variant",
                1.0,
                float(np.median(ratio)),
                (low, high),
                None if name == "_time_ratio" else "supported",
                verdict_of(high <= 1 + room, low > 1 + room),
                f"{PAPER}, section 4",
                detail,
            )


def _predicts(results: Results, place: Any, group: list[Arm]) -> Iterator[Claim]:
    """Rank correlation over variants of kappa(J) at the start with steps to the goal, in each seed; mean and its interval."""
    if len(group) < 4:
        return
    kappa, steps = (
        np.stack([arm.draws(results, q) for arm in group]) for q in ("initial_jacobian_condition", "steps_to_goal")
    )
    kappa = np.where(np.isnan(kappa), np.inf, kappa)  # a singular Jacobian is the worst conditioned
    found = [stats.spearmanr(k, s).statistic for k, s in zip(kappa.T, steps.T, strict=True) if np.ptp(s) > 0]
    change = np.array(found, dtype=float)
    yield effect_claim(
        f"{_where(place)}: kappa(J) at initialisation predicts steps to half the loss of guessing ({len(group)} variants)",
        change,
        1.0,
        f"{PAPER}, section 3",
        f"mean over {change.size} seeds of the rank correlation over variants; 1 is a perfect prediction",
    )


def _two_by_two(results: Results) -> Iterator[Claim]:
    """Layer norm and correction together against each alone, where all four were trained."""
    found = arms(results)
    for place, group in found.items():
        bare = found.get(dataclasses.replace(place, norm="none"))
        if place.norm == "none" or not bare:
            continue
        for both in group:
            alone = [a for a in bare if a.name == both.name]
            norm = [a for a in group if a.chosen.variant == "none"]
            if both.chosen.variant not in CORRECTIONS or not alone or not norm:
                continue
            accuracy = both.draws(results, "test_accuracy")
            changes = [accuracy - one.draws(results, "test_accuracy") for one in (alone[0], norm[0])]
            yield effect_claim(
                f"{_where(place)}: layer norm with {both.name} beats each alone in test accuracy",
                min(changes, key=np.mean),
                1.0,
                f"{PAPER}, section 5",
                "change against the one that is better on average, seed by seed",
            )


def _table(results: Results) -> Iterator[Claim]:
    """The paper's results, which need data that do not come with a package."""
    best = _best_gain(results)
    for data, model, measure, before, after in TABLE:
        yield Claim(
            f"{data}, {model}: conditioning changes {measure} by {after - before:+.1f} points ({before} to {after})",
            "",
            after - before,
            None,
            None,
            None,
            "undecided",
            f"{PAPER}, section 5",
            f"not run here{best}; your own images: python -m simulations.conditioned_training --images FOLDER",
        )


def _best_gain(results: Results) -> str:
    """Beside the table: what the sweep gave for its shifts."""
    said = []
    for group in arms(results).values():
        plain = next((arm for arm in group if arm.chosen.variant == "none"), None)
        for arm in group:
            if plain is not None and arm.chosen.variant == "shift":
                change = 100 * np.mean(arm.draws(results, "test_accuracy") - plain.draws(results, "test_accuracy"))
                said.append(f"{arm.name} {change:+.1f} points")
    return f" (ours on {results.settings[0].task}: {', '.join(said[:4])})" if said else ""


def sentence(results: Results) -> str:
    """Change of the test accuracy by each variant, in points, with its 95 % interval."""
    parts = []
    for place, group in arms(results).items():
        plain = next((arm for arm in group if arm.chosen.variant == "none"), None)
        if plain is None:
            continue
        base = 100 * plain.draws(results, "test_accuracy")
        said = []
        for arm in group:
            change = 100 * arm.draws(results, "test_accuracy") - base
            if arm is not plain and change.size > 1:
                low, high = Estimate.from_draws(change, "mean").interval or (np.nan, np.nan)
                said.append(f"{arm.name} {change.mean():+.1f} [{low:+.1f}, {high:+.1f}]")
        parts.append(
            f"{_where(place)}: plain {base.mean():.1f} %; change in points {', '.join(said) or 'none compared'}"
        )
    return "Test accuracy, each variant at its best rate. " + ". ".join(parts[:4]) + "." if parts else ""
