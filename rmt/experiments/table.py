"""Tables: results and plans as text, for a terminal or a pipe."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from typing import IO, Any

from rmt.experiments.results import Results
from rmt.experiments.run import Plan
from rmt.experiments.setting import as_record

WIDEST = 10_000  # columns; a table takes what its cells need
_STYLES = {"supported": "green", "contradicted": "red", "undecided": "yellow"}


def print_results(results: Results, *, file: IO[str] | None = None) -> None:
    """Print one table: the rows of the headline quantities, the claims, and the plain sentence as its caption."""
    from rich.table import Table

    headline = results.experiment.headline
    rows = [row for row in results.rows if not headline or row["quantity"] in headline]
    varying = varying_fields([row["setting"] for row in results.rows])
    table = Table(title=results.experiment.name, caption=_caption(results, len(rows)), caption_justify="left")
    for name in varying:
        table.add_column(name.replace("_", " "), justify="right", no_wrap=True)
    table.add_column("quantity", no_wrap=True)
    for name in ("measured", "predicted", "band"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    previous = None
    for row in rows:
        if previous is not None and row["setting"] != previous:
            table.add_section()
        previous = row["setting"]
        cells = [_cell(row["setting"][name]) for name in varying]
        index = "".join(f" {value}" for value in row["index"].values())
        verdict = row["verdict"]
        table.add_row(
            *cells,
            row["quantity"] + index,
            _measured(row),
            _number(row["predicted"]),
            _interval(row["band"]),
            f"[{_STYLES[verdict]}]{verdict}" if verdict in _STYLES else verdict,
        )
    _print(table, file)


def print_plan(planned: Plan, missing: int, *, file: IO[str] | None = None) -> None:
    """Print the tasks of a dry run, one line a setting, with memory and rough time."""
    from rich.table import Table

    varying = varying_fields([as_record(setting) for setting in planned.settings])
    table = Table(title=f"{planned.experiment.name}: dry run", caption=plan_sentence(planned, missing))
    for name in (*varying, "blocks", "memory", "seconds"):
        table.add_column(name.replace("_", " "), justify="right")
    for setting in planned.settings:
        tasks = [task for task in planned.tasks if task.setting == setting]
        record = as_record(setting)
        cost = planned.experiment.cost(setting, planned.bench)
        cells = [_cell(record[name]) for name in varying]
        table.add_row(*cells, str(len(tasks)), size(cost.memory), f"{planned.seconds(tasks):.3g}")
    _print(table, file)


def plan_sentence(planned: Plan, missing: int) -> str:
    """What a dry run says in words."""
    seconds = planned.seconds(planned.tasks) / planned.workers
    return (
        f"{len(planned.tasks)} blocks, {missing} of them not stored yet; up to {size(planned.memory())} a worker; "
        f"about {seconds:.3g} s for all of them on {planned.workers} workers."
    )


def size(count: int) -> str:
    """Bytes in the unit a person would use."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            break
        value /= 1000
    return f"{value:.3g} {unit}"


def _print(table: Any, file: IO[str] | None) -> None:
    from rich.console import Console
    from rich.measure import Measurement

    stream = file or sys.stdout
    console = Console(file=stream)
    whole = Measurement.get(console, console.options.update(width=WIDEST), table).maximum
    console.width = whole  # on a narrow terminal too: rich would cut digits and drop verdicts without a word
    with console.capture() as text:
        console.print(table)
    stream.write(text.get())  # by ourselves: where a pipe is closed, rich ends the whole program


def _caption(results: Results, shown: int) -> str:
    tally = Counter(row["verdict"] for row in results.rows)
    lines = [", ".join(f"{count} {verdict}" for verdict, count in tally.most_common())]
    if shown < len(results.rows):
        lines[0] += f" (of {len(results.rows)} rows {shown} are shown; --format json or --export FILE has all)"
    for claim in results.claims:
        expected = f", as expected to be {claim['expected']}" if claim["expected"] == claim["verdict"] else ""
        if claim["expected"] and not expected and claim["verdict"] != "undecided":
            expected = f", EXPECTED {claim['expected']}"
        numbers = "" if claim["measured"] is None else f" (measured {_number(claim['measured'])}"
        if numbers and claim["interval"]:
            numbers += f", {_interval(claim['interval'])}"
        lines.append(f"claim: {claim['claim']}: {claim['verdict']}{expected}{numbers + ')' if numbers else ''}")
    if results.summary:
        lines.append(results.summary)
    return "\n".join(lines)


def varying_fields(records: Iterable[dict[str, Any]]) -> list[str]:
    """The fields that tell the settings of a sweep apart, in their order."""
    records = list(records)
    if not records:
        return []
    chosen: list[str] = []
    for name in records[0]:  # a field that is a function of the columns before it tells nothing new
        told = {tuple(record[other] for other in chosen) for record in records}
        both = {tuple(record[other] for other in (*chosen, name)) for record in records}
        if len(both) > len(told):
            chosen.append(name)
    return chosen or [name for name in records[0] if name == "n"]


def _measured(row: dict[str, Any]) -> str:
    if row["measured"] is None:
        return "-"
    spread = "" if row["stderr"] is None else f" ± {row['stderr']:.2g}"
    return _number(row["measured"]) + spread


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.5g}"


def _interval(pair: list[float] | None) -> str:
    """Escaped, since rich reads a bracket as a style; as many digits as the number inside it has."""
    return "-" if pair is None else rf"\[{_number(pair[0])}, {_number(pair[1])}]"


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
