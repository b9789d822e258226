"""Audit: measured draws meet predictions, and every row gets a verdict."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rmt.experiments.experiment import Experiment
from rmt.experiments.setting import as_record, sweep
from rmt.statistics.compare import judge

if TYPE_CHECKING:
    from rmt.experiments.results import Results

GIVEN_DRAW = "given_draw:"
NOTE = "note:"


def rows(experiment: Experiment, samples: Mapping[Any, Mapping[str, np.ndarray]]) -> list[dict[str, Any]]:
    """One JSON row per setting, quantity and index, in the order of the sweep."""
    comparisons = family(experiment)
    found = []
    for setting, arrays in samples.items():
        predictions = predicted(experiment, setting)
        fixed = experiment.deterministic(setting)
        for quantity, index, draws in columns(experiment, arrays):
            prediction = look_up(predictions, quantity, index)
            verdict = judge(draws, prediction, comparisons=comparisons, deterministic=fixed)
            given, notes = arrays.get(GIVEN_DRAW + quantity), arrays.get(NOTE + quantity)
            found.append(_row(setting, quantity, index, verdict, given, notes))
    return found


def columns(
    experiment: Experiment, arrays: Mapping[str, np.ndarray]
) -> Iterator[tuple[str, dict[str, int], np.ndarray]]:
    """(quantity, index, draws) of everything that makes a row."""
    for quantity, array in arrays.items():
        if quantity.startswith(("_", GIVEN_DRAW, NOTE)):
            continue
        if array.ndim == 1:
            yield quantity, {}, array
        else:
            name = experiment.index[quantity]
            for position in range(array.shape[1]):
                yield quantity, {name: position + 1}, array[:, position]


def predicted(experiment: Experiment, setting: Any) -> Mapping[str, Any]:
    """The experiment's predictions for a setting."""
    return experiment.predict(setting) if experiment.predict else {}


def look_up(predictions: Mapping[str, Any], quantity: str, index: Mapping[str, int]) -> Any:
    """The prediction of one row, None where there is none."""
    entry = predictions.get(quantity)
    if isinstance(entry, Mapping):
        return entry.get(next(iter(index.values()))) if index else None
    return None if index else entry


def family(experiment: Experiment) -> int:
    """How many rows of the default sweep carry a number to be judged: the family of the error rate."""
    settings, _ = sweep(experiment.Setting, experiment.sweep)
    count = 0
    for setting in settings:
        for entry in predicted(experiment, setting).values():
            forms = entry.values() if isinstance(entry, Mapping) else [entry]
            count += sum(form is not None and form.in_range for form in forms)
    return max(count, 1)


def claims(results: Results) -> list[dict[str, Any]]:
    """The judged claims of an experiment as JSON records."""
    experiment = results.experiment
    if experiment.claims is None or not results.samples:
        return []
    return [
        {
            "claim": claim.claim,
            "along": claim.along,
            "predicted": number(claim.predicted),
            "measured": number(claim.measured),
            "interval": pair(claim.interval),
            "expected": claim.expected,
            "verdict": claim.verdict,
            "source": claim.source,
            "detail": claim.detail,
        }
        for claim in experiment.claims(results)
    ]


def number(value: Any) -> float | None:
    """A JSON number: None for what is unknown, never NaN or Infinity."""
    if value is None:
        return None
    value = float(value)
    return value if math.isfinite(value) else None


def pair(interval: Any) -> list[float] | None:
    """A JSON interval, None where an end is unknown or infinite."""
    if interval is None:
        return None
    ends = [number(end) for end in interval]
    return None if None in ends else ends  # type: ignore[return-value]


def _row(
    setting: Any,
    quantity: str,
    index: dict[str, int],
    verdict: Any,
    given: np.ndarray | None,
    notes: np.ndarray | None,
) -> dict[str, Any]:
    known = None if given is None else given[np.isfinite(given)]
    return {
        "setting": as_record(setting),
        "index": index,
        "quantity": quantity,
        "statistic": verdict.statistic,
        "measured": number(verdict.measured),
        "stderr": number(verdict.stderr),
        "interval": pair(verdict.interval),
        "draws": int(verdict.draws),
        "predicted": number(verdict.predicted),
        "predicted_given_draw": None if known is None or known.size == 0 else number(np.mean(known)),
        "band": pair(verdict.band),
        "kind": verdict.kind,
        "standing": verdict.standing,
        "source": verdict.source,
        "validity": verdict.validity,
        "verdict": verdict.verdict,
        "detail": "; ".join(part for part in (_said(notes), verdict.detail) if part),
    }


def _said(notes: np.ndarray | None) -> str:
    """What draws say of themselves, each thing once with its number of draws; silence where nobody says anything."""
    if notes is None:
        return ""
    tally = Counter(str(note) for note in notes if note)
    return "; ".join(f"{note} ({count} of {len(notes)} draws)" for note, count in tally.items())
