"""The command line: list the experiments, or run one of them."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import pkgutil
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import rmt
from rmt.experiments import flags
from rmt.experiments.experiment import Experiment, load
from rmt.experiments.run import Interrupted, Plan, execute, prepare
from rmt.experiments.setting import as_record

DONE, AGAINST_THEORY, USAGE, PARTIAL, INTERRUPTED = 0, 1, 2, 3, 130
PACKAGE = "simulations"


def main(argv: Sequence[str] | None = None) -> int:
    """`rmt` and `python -m simulations`: no argument lists the experiments; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        with _reader_may_leave():
            return _choose(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    return DONE


def _choose(arguments: Sequence[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        return _list()
    name, *rest = arguments
    if name == "--version":
        print(f"rmt {rmt.__version__}")
        return DONE
    if name == "doctor":
        from rmt.doctor import main as doctor

        return doctor(rest)
    if name == "predict":
        from rmt.oracle import main as predict

        return predict(rest)
    if name == "cite":
        return _cite(rest)
    try:
        experiment = load(name if name.endswith(".py") else _module(name))
    except ValueError as reason:
        return _refuse("rmt", str(reason))
    return run_experiment(experiment, rest, command=f"python -m {PACKAGE} {shlex.quote(name)}")


def run_experiment(experiment: Experiment, argv: Sequence[str] | None = None, *, command: str | None = None) -> int:
    """The command line of one experiment; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    again = f"{command or f'python -m {PACKAGE}.{experiment.name}'} {shlex.join(arguments)}".rstrip()
    try:
        with _reader_may_leave():
            parsed = flags.parser(experiment).parse_args(arguments)
    except SystemExit as stop:
        return int(stop.code or 0)
    try:
        return _run(experiment, parsed, again)
    except KeyboardInterrupt as stopped:
        if isinstance(stopped, Interrupted):
            _show(stopped.results, parsed.format)
        print(f"interrupted; resume with: {again}", file=sys.stderr)
        return INTERRUPTED


def _run(experiment: Experiment, parsed: Any, command: str) -> int:
    try:
        _check_files(parsed)
        planned = prepare(experiment, flags.request(experiment, parsed))
        if parsed.dry_run:
            with _reader_may_leave():
                _dry_run(planned, parsed.format)
            return DONE
        results = execute(planned)
    except ValueError as reason:
        return _refuse(experiment.name, str(reason))
    _show(results, parsed.format)
    try:
        if parsed.export:
            _export(results, Path(parsed.export))
        if experiment.figure and not parsed.no_figure and results.samples:
            _draw(results, Path(parsed.figure), command)
    except OSError as reason:
        print(f"{experiment.name}: error: a file could not be written ({reason})", file=sys.stderr)
        return PARTIAL
    if results.missing and not results.failures:
        print(f"{results.missing} blocks belong to other shards and are not stored yet", file=sys.stderr)
    if results.failures:
        print(f"{len(results.failures)} blocks failed; the same command tries them again", file=sys.stderr)
        return PARTIAL
    return AGAINST_THEORY if parsed.check and _against(results) else DONE


def _cite(arguments: Sequence[str]) -> int:
    """`rmt cite EXPERIMENT [flags]`: BibTeX on stdout."""
    from rmt.experiments.cite import citations

    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: rmt cite EXPERIMENT [flags]: the BibTeX of the papers behind its predictions")
        return DONE if arguments else USAGE
    name, *rest = arguments
    try:
        experiment = load(name if name.endswith(".py") else _module(name))
        parsed = flags.parser(experiment).parse_args(rest)
        entries = citations(experiment, flags.request(experiment, parsed).values)
    except SystemExit as stop:
        return int(stop.code or 0)
    except ValueError as reason:
        return _refuse("rmt cite", str(reason))
    if entries:
        print("\n\n".join(entries))
    else:
        print(f"{experiment.name}: no paper is behind its predictions", file=sys.stderr)
    return DONE


def _list() -> int:
    print(
        "usage: python -m simulations EXPERIMENT [flags]   (or: rmt EXPERIMENT [flags]; rmt predict; rmt cite; rmt doctor)\n"
    )
    for name in experiments():
        experiment = load(f"{PACKAGE}.{name}")
        print(f"  {name:22} {experiment.doc.splitlines()[0]}")
    print("\nEXPERIMENT may also be a Python file of one's own that ends in EXPERIMENT = Experiment(...).")
    return DONE


def experiments() -> list[str]:
    """The experiments that ship: the modules of the package `simulations`."""
    _reach_checkout()
    found = importlib.util.find_spec(PACKAGE)
    folders = list(found.submodule_search_locations or []) if found else []
    return sorted(m.name for m in pkgutil.iter_modules(folders) if not m.ispkg and not m.name.startswith("_"))


def _module(name: str) -> str:
    known = experiments()
    if name in known:
        return f"{PACKAGE}.{name}"
    if "." in name:
        return name
    raise ValueError(f"{name}: no such experiment; there are {', '.join(known)}")


def _reach_checkout() -> None:
    """A module named on the command line may lie in the working folder, as with `python -m`."""
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


def _check_files(parsed: Any) -> None:
    """Refuse unusable output files before any work is done."""
    if parsed.export and Path(parsed.export).suffix not in (".csv", ".parquet", ".npz"):
        raise ValueError(f"--export {parsed.export}: must end in .csv, .parquet or .npz")
    if parsed.export and Path(parsed.export).suffix == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        raise ValueError("--export: .parquet needs pyarrow; pip install 'rmt-attention[report]', or choose .csv")
    wanted = [("--export", parsed.export), ("--figure", None if parsed.no_figure else parsed.figure)]
    for flag, path in wanted:
        if path:
            folder = Path(path).parent
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as reason:
                raise ValueError(f"{flag} {path}: its folder cannot be made ({reason.strerror})") from reason
            if Path(path).is_dir() or not os.access(folder, os.W_OK):
                why = (
                    "is a folder; name a file" if Path(path).is_dir() else "its folder is not writable; choose another"
                )
                raise ValueError(f"{flag} {path}: {why}")
    if not parsed.no_figure and Path(parsed.figure).suffix not in (".png", ".svg", ".pdf"):
        raise ValueError(f"--figure {parsed.figure}: must end in .png, .svg or .pdf")


@contextlib.contextmanager
def _reader_may_leave() -> Iterator[None]:
    """A reader such as `head` may close the pipe: what is left to print goes nowhere, and the run goes on."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _dry_run(planned: Plan, form: str) -> None:
    from rmt.experiments.store import DamagedBlock, Store
    from rmt.experiments.table import print_plan

    store = Store(planned.request.out)

    def missing(task: Any) -> bool:
        try:
            return store.read(task) is None
        except DamagedBlock:
            return True

    absent = [task for task in planned.tasks if missing(task)]
    if form == "table":
        print_plan(planned, len(absent))
        return
    tasks = [{"key": task.key, "stored": task not in absent, **task.record()} for task in planned.tasks]
    document = {
        "experiment": planned.experiment.name,
        "version": planned.experiment.version,
        "seed": planned.request.seed,
        "device": planned.bench.backend.name,
        "settings": [as_record(setting) for setting in planned.settings],
        "tasks": tasks,
        "memory_bytes": planned.memory(),
        "seconds": planned.seconds(absent) / planned.workers,
    }
    _print_json(document)


def _show(results: Any, form: str) -> None:
    with _reader_may_leave():
        if form == "json":
            _print_json(results.document())
        else:
            from rmt.experiments.table import print_results

            print_results(results)


def _print_json(document: dict[str, Any]) -> None:
    print(json.dumps(document, indent=1, allow_nan=False))


def _export(results: Any, path: Path) -> None:
    write = {".csv": results.to_csv, ".parquet": results.to_parquet, ".npz": results.to_npz}
    write[path.suffix](path)
    print(f"wrote {path}", file=sys.stderr)


def _draw(results: Any, path: Path, command: str) -> None:
    from rmt.figures import save

    recipe = {"command": command, "seed": results.seed, **results.provenance}
    for written in save(results.experiment.figure(results), path, recipe=recipe):
        print(f"wrote {written}", file=sys.stderr)


def _against(results: Any) -> bool:
    """Whether a row is contradicted, or a claim is decided against its expectation."""
    if any(row["verdict"] == "contradicted" for row in results.rows):
        return True
    decided = ("supported", "contradicted")
    return any(
        claim["expected"] in decided and claim["verdict"] in decided and claim["verdict"] != claim["expected"]
        for claim in results.claims
    )


def _refuse(name: str, reason: str) -> int:
    print(f"{name}: error: {' '.join(reason.split())}", file=sys.stderr)
    return USAGE
