"""Run what is missing of each experiment's default sweep, then write reports/output/report.html and report.pdf.

python -m reports [EXPERIMENT ...]     without names, every experiment but the long ones

EXPERIMENT may also be a Python file of one's own that ends in EXPERIMENT = Experiment(...).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from reports.chapter import Chapter, chapter
from reports.story import chosen
from rmt.experiments.experiment import load
from rmt.experiments.run import DEFAULT_STORE, Interrupted, Request, execute, prepare
from rmt.parser import Parser


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns the exit code of the contract."""
    parser = Parser(prog="python -m reports", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="EXPERIMENT")
    parser.add_argument("--draws", type=int, default=16, help="draws per setting (16)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--out", default=DEFAULT_STORE, help="the store")
    parser.add_argument("--to", default="reports/output", help="folder of the report")
    parser.add_argument("--no-pdf", action="store_true")
    parser.add_argument("--quiet", action="store_true")
    try:
        parsed = parser.parse_args(argv)
    except SystemExit as stop:
        return int(stop.code or 0)
    try:
        return _write(parsed)
    except ValueError as reason:
        print(f"reports: error: {' '.join(str(reason).split())}", file=sys.stderr)
        return 2
    except OSError as reason:
        print(f"reports: error: a file could not be written ({reason})", file=sys.stderr)
        return 3
    except (KeyboardInterrupt, Interrupted):
        print("interrupted; the same command goes on from the store", file=sys.stderr)
        return 130


def _write(parsed: argparse.Namespace) -> int:
    try:
        import jinja2  # noqa: F401
    except ImportError as reason:
        raise ValueError("a report needs Jinja2 and fpdf2; pip install 'rmt-attention[report]'") from reason
    from reports import render

    folder = Path(parsed.to)
    try:
        (folder / "figures").mkdir(parents=True, exist_ok=True)
    except OSError as reason:
        raise ValueError(f"--to {parsed.to}: the folder cannot be made ({reason.strerror})") from reason
    failed = 0
    parts: dict[str, list[Chapter]] = {}
    for part, names in chosen(parsed.names).items():
        for name in names:
            request = Request(
                draws=parsed.draws, seed=parsed.seed, workers=parsed.workers, out=parsed.out, quiet=parsed.quiet
            )
            planned = prepare(load(name if name.endswith(".py") else f"simulations.{name}"), request)
            if not parsed.quiet:
                print(f"{name}: up to {planned.seconds(planned.tasks) / planned.workers:.3g} s", file=sys.stderr)
            results = execute(planned)
            failed += len(results.failures)
            parts.setdefault(part, []).append(chapter(results, folder=folder / "figures"))
    (folder / "report.html").write_text(render.html(parts), encoding="utf-8")
    print(folder / "report.html")
    if not parsed.no_pdf:
        render.pdf(parts, folder / "report.pdf")
        print(folder / "report.pdf")
    return 3 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
