"""A chapter: what one experiment says, in a form that a page can be set from."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any

from rmt.experiments.results import Results
from rmt.experiments.table import varying_fields


@dataclasses.dataclass(frozen=True)
class Chapter:
    """One experiment on the page.

    question: the first line of its docstring; text: the paragraphs below it; summary: its plain sentence.
    tally: verdicts and how many rows have each; rows: the headline rows that were judged; claims: all of them.
    figure: path of its PNG, or None; command: what repeats it.
    """

    name: str
    question: str
    text: tuple[str, ...]
    summary: str
    tally: tuple[tuple[str, int], ...]
    rows: tuple[dict[str, Any], ...]
    claims: tuple[dict[str, Any], ...]
    figure: Path | None
    command: str
    provenance: dict[str, Any]


def chapter(results: Results, *, folder: Path) -> Chapter:
    """The chapter of an experiment's results; its figure is written into `folder`."""
    experiment = results.experiment
    module = experiment.module
    named = f"python -m simulations {Path(module).name}" if module.endswith(".py") else f"python -m {module}"
    command = f"{named} --draws {results.provenance['draws']} --seed {results.seed}"
    question, *paragraphs = [" ".join(part.split()) for part in experiment.doc.split("\n\n")]
    varying = varying_fields(row["setting"] for row in results.rows)
    rows = [row for row in results.rows if not experiment.headline or row["quantity"] in experiment.headline]
    return Chapter(
        name=experiment.name,
        question=question,
        text=tuple(paragraphs),
        summary=results.summary,
        tally=tuple(Counter(row["verdict"] for row in results.rows).most_common()),
        rows=tuple(_cells(row, varying) for row in rows if row["predicted"] is not None),
        claims=tuple(results.claims),
        figure=_figure(results, folder, command),
        command=command,
        provenance=dict(results.provenance),
    )


def _figure(results: Results, folder: Path, command: str) -> Path | None:
    if results.experiment.figure is None or not results.samples:
        return None
    from rmt.figures import save

    recipe = {"command": command, "seed": results.seed, **results.provenance}
    return save(results.experiment.figure(results), folder / f"{results.experiment.name}.png", recipe=recipe)[0]


def _cells(row: dict[str, Any], varying: list[str]) -> dict[str, Any]:
    setting = ", ".join(f"{name} = {_short(row['setting'][name])}" for name in varying)
    index = ", ".join(f"{name} {value}" for name, value in row["index"].items())
    return {
        "setting": setting,
        "quantity": row["quantity"] + (f" ({index})" if index else ""),
        "measured": interval(row["measured"], row["interval"]),
        "predicted": interval(row["predicted"], row["band"]),
        "verdict": row["verdict"],
        "source": row["source"],
    }


def interval(value: float | None, ends: list[float] | None) -> str:
    """A number with its interval, for a table."""
    if value is None:
        return "-"
    return _short(value) + (f" [{ends[0]:.4g}, {ends[1]:.4g}]" if ends else "")


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else "-" if value is None else str(value)
