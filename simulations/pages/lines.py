"""Lines and points of a page: theory only where its prediction is in range, measurements with their intervals."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rmt import figures
from rmt.statistics.estimate import Estimate

if TYPE_CHECKING:
    from rmt.experiments.results import Results


def theory(
    results: Results, setting: Any, quantity: str, label: str, sizes: Iterable[int], *, derived: Iterable[str] = ()
) -> figures.Curve:
    """The prediction of a quantity against n, with its band; a gap where it is out of range or n does not suit.

    derived: fields that follow from n, left to the setting to work out again.
    """
    predict = results.experiment.predict
    assert predict is not None
    line = np.array([int(n) for n in sizes])
    table = np.full((3, line.size), np.nan)
    for at, n in enumerate(line):
        try:
            moved = dataclasses.replace(setting, n=int(n), **dict.fromkeys(derived))
        except ValueError:  # this n has no meaning with the other fields
            continue
        prediction = _predicted(predict, moved).get(quantity)
        if prediction is not None and prediction.in_range and prediction.band:
            table[:, at] = prediction.value, *prediction.band
    return figures.Curve(label, line, *table)


def measured(results: Results, settings: Iterable[Any], quantity: str, label: str) -> figures.Points:
    """Medians of a quantity against n, with their 95 % intervals."""
    rows = []
    for setting in settings:
        estimate = Estimate.from_draws(results.samples[setting][quantity], "median")
        if estimate.value is not None:
            rows.append((setting.n, estimate.value, *(estimate.interval or (estimate.value, estimate.value))))
    return figures.Points(label, *np.array(sorted(rows), dtype=float).reshape(-1, 4).T)


@functools.lru_cache(maxsize=512)
def _predicted(predict: Callable[[Any], Mapping[str, Any]], setting: Any) -> Mapping[str, Any]:
    """All quantities of a setting at once: the panels of a page ask for them one by one."""
    return predict(setting)
