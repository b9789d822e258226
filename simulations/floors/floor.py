"""Floors of approximations: how far a statistic is from what is predicted, in units of the band."""

from __future__ import annotations

import dataclasses
import importlib
import tempfile
from collections.abc import Iterable
from typing import Any

from rmt.experiments.run import run

LAZY = 10.0  # band over worst floor
RESOLVED = 0.5  # standard error over half-width of the band
ERRORS = 4.5  # standard errors a floor may reach beyond its band: 1e-5 for a normal mean at the band's very edge


@dataclasses.dataclass(frozen=True)
class Floor:
    """One approximation at one setting: its distance from the statistic, the error of that, and the band on that side."""

    experiment: str
    quantity: str
    setting: str
    floor: float
    stderr: float
    half: float

    @property
    def outside(self) -> bool:
        """Whether the floor exceeds the band beyond what sampling explains."""
        return self.floor - ERRORS * self.stderr > self.half


@dataclasses.dataclass(frozen=True)
class Width:
    """A quantity over its settings: how many, the largest share of the band that a floor takes, and how many are out.

    share is that of the floor less one standard error where this is positive, an honest lower end; most is that of the
    floor and one standard error. unresolved counts settings whose error is half the band or more.
    """

    experiment: str
    quantity: str
    settings: int
    share: float
    most: float
    outside: int
    unresolved: int

    @property
    def lazy(self) -> bool:
        """Whether the band is ten times as wide as every floor, errors included."""
        return self.most * LAZY < 1


def floors(
    experiment: str, draws: int, values: dict[str, Any], *, seed: int = 0, out: str | None = None
) -> list[Floor]:
    """The floor of every approximation in range of a sweep, from fresh draws or those stored in `out`."""
    bundle = importlib.import_module(f"simulations.{experiment}").EXPERIMENT
    with tempfile.TemporaryDirectory() as folder:
        results = run(bundle, **values, draws=draws, seed=seed, out=out or folder, quiet=True)
        found = []
        for row in results.rows:
            low_high, measured, error = row["band"], row["measured"], row["stderr"]
            if row["kind"] != "approximation" or low_high is None or measured is None or error is None:
                continue
            away = measured - row["predicted"]
            half = low_high[1] - row["predicted"] if away > 0 else row["predicted"] - low_high[0]
            said = {name: row["setting"][name] for name in values}
            words = ", ".join(f"{name} {value}" for name, value in (said | row["index"]).items())
            found.append(Floor(experiment, row["quantity"], words, abs(away), error, half))
    return found


def widths(found: Iterable[Floor]) -> list[Width]:
    """Floors by experiment and quantity."""
    groups: dict[tuple[str, str], list[Floor]] = {}
    for one in found:
        groups.setdefault((one.experiment, one.quantity), []).append(one)
    return [
        Width(
            experiment,
            quantity,
            len(rows),
            max((one.floor - one.stderr) / max(one.half, 1e-300) for one in rows),
            max((one.floor + one.stderr) / max(one.half, 1e-300) for one in rows),
            sum(one.outside for one in rows),
            sum(one.stderr >= RESOLVED * one.half for one in rows),
        )
        for (experiment, quantity), rows in groups.items()
    ]


def table(rows: Iterable[Width]) -> str:
    """The widths as text; a lazy band is marked."""
    head = f"{'experiment':22}{'quantity':34}{'settings':>9}{'floor/band':>20}{'outside':>9}{'unresolved':>12}"
    lines = [
        f"{one.experiment:22}{one.quantity:34}{one.settings:>9}{f'{max(one.share, 0):.2f} to {one.most:.2f}':>20}"
        f"{one.outside:>9}{one.unresolved:>12}{'  band over ten floors' if one.lazy else ''}"
        for one in rows
    ]
    return "\n".join([head, *lines])
