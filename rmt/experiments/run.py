"""Run: plan a sweep, compute the blocks that are missing, keep each as it arrives, and hand back the results."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import numpy as np

from rmt.experiments import executors
from rmt.experiments.experiment import Bench, Experiment
from rmt.experiments.progress import Progress
from rmt.experiments.provenance import environment
from rmt.experiments.results import Results, together
from rmt.experiments.setting import as_record, sweep, told
from rmt.experiments.store import DamagedBlock, Store
from rmt.experiments.tasks import Task, plan, run_task

DEFAULT_STORE = "reports/results"
MOST_DRAWS = 10**6  # each block is a file
WORTH_PROCESSES = 8.0  # seconds of work below which starting worker processes costs more than it saves


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run; `results` holds what is finished."""

    def __init__(self, results: Results) -> None:
        super().__init__()
        self.results = results


@dataclasses.dataclass(frozen=True)
class Request:
    """Everything a run needs besides its experiment: the run flags, checked."""

    values: Mapping[str, tuple[Any, ...]] = dataclasses.field(default_factory=dict)
    draws: int = 16
    seed: int = 0
    device: str = "auto"
    workers: int | None = None
    executor: str | None = None
    scheduler: str | None = None
    shard: tuple[int, int] = (1, 1)
    memory_budget: int | None = None
    dtype: str = "float32"
    spectrum: str = "none"
    out: str = DEFAULT_STORE
    fresh: bool = False
    quiet: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.draws, int) or not 1 <= self.draws <= MOST_DRAWS:
            rule = "an integer >= 1" if not isinstance(self.draws, int) or self.draws < 1 else f"at most {MOST_DRAWS}"
            raise ValueError(f"--draws {self.draws}: must be {rule}")
        if not isinstance(self.seed, int) or not 0 <= self.seed < 2**63:
            raise ValueError(f"--seed {self.seed}: must be an integer from 0 to 2^63 - 1")
        if self.workers is not None and (not isinstance(self.workers, int) or self.workers < 1):
            raise ValueError(f"--workers {self.workers}: must be an integer >= 1")
        if self.scheduler is not None and self.executor != "dask":
            raise ValueError(f"--scheduler {self.scheduler}: is for dask only; add --executor dask")
        if self.memory_budget is not None and (not isinstance(self.memory_budget, int) or self.memory_budget < 1):
            raise ValueError(f"--memory-budget {self.memory_budget}: must be a number of bytes >= 1")
        if not (isinstance(self.shard, tuple) and len(self.shard) == 2 and 1 <= self.shard[0] <= self.shard[1]):
            raise ValueError(f"--shard {self.shard}: must be a pair (i, k) with 1 <= i <= k")
        for name, value, known in (
            ("device", self.device, ("auto", "cpu", "gpu")),
            ("dtype", self.dtype, ("float32", "float64")),
            ("executor", self.executor, (None, *executors.NAMES)),
        ):
            if value not in known:
                raise ValueError(f"--{name} {value}: must be one of {', '.join(k for k in known if k)}")


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a run would do: its settings and tasks, what is stored already, and what the rest costs."""

    experiment: Experiment
    request: Request
    settings: tuple[Any, ...]
    left_out: tuple[str, ...]
    tasks: tuple[Task, ...]
    bench: Bench

    @property
    def workers(self) -> int:
        """Worker processes or kernel threads."""
        return self.request.workers or usable_cores()

    def seconds(self, tasks: Iterable[Task]) -> float:
        """Rough seconds of work on one core."""
        return sum(self.experiment.cost(task.setting, self.bench).seconds * task.count for task in tasks)

    def memory(self) -> int:
        """Peak bytes of the largest task."""
        return max((self.experiment.cost(s, self.bench).memory for s in self.settings), default=0)


def usable_cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def prepare(experiment: Experiment, request: Request) -> Plan:
    """Check a request and lay out its tasks. Raises ValueError, in one line, for what cannot be run."""
    from rmt.arrays import CPU, GPU, gpu_unavailable

    if request.spectrum not in experiment.spectra:
        known = ", ".join(experiment.spectra)
        raise ValueError(f"--spectrum {request.spectrum}: {experiment.name} knows {known}; choose one of them")
    values = {**experiment.sweep, **request.values}
    settings, left_out = sweep(experiment.Setting, values)
    if not settings:
        raise ValueError("no combination of these flags has a meaning: " + "; ".join(left_out))
    if "gpu" not in experiment.devices:
        reason: str | None = f"{experiment.name} computes on the CPU"
    else:
        reason = gpu_unavailable() if request.device in ("auto", "gpu") else "not asked for"
    if request.device == "gpu" and reason:
        raise ValueError(f"--device gpu: {reason}; use --device cpu")
    backend = CPU if reason else GPU
    budget = request.memory_budget or backend.memory() // 2
    bench = Bench(backend, request.dtype, request.spectrum, workers=1, memory_budget=budget)
    for setting in settings:
        least = experiment.cost(setting, bench).least_memory
        if least > budget:
            raise ValueError(
                f"--memory-budget {budget} bytes: this sweep needs at least {least} bytes ({told(setting)}); allow more"
            )
    tasks = plan(
        experiment, settings, draws=request.draws, seed=request.seed, dtype=request.dtype, spectrum=request.spectrum
    )
    return Plan(experiment, request, tuple(settings), tuple(left_out), tuple(tasks), bench)


def execute(planned: Plan, *, say: Callable[[str], None] | None = None) -> Results:
    """Compute what is missing and return the results.

    A block that fails is reported and left out; it is tried again on the next run. Raises Interrupted on Ctrl-C, with
    the finished results; what was computed is in the store.
    """
    say = say or (lambda line: print(line, file=sys.stderr))
    for line in planned.left_out:
        say(f"left out: {line}")
    store = Store(planned.request.out)
    held: dict[Task, dict[str, np.ndarray]] = {}
    missing: list[Task] = []
    number, of = planned.request.shard
    for position, task in enumerate(planned.tasks):
        mine = position % of == number - 1
        block = None if planned.request.fresh and mine else _stored(store, task, say)
        if block is not None:
            held[task] = block
        elif mine:
            missing.append(task)
    failures: list[str] = []
    try:
        if missing:
            _compute(planned, store, missing, held, failures, say)
    except KeyboardInterrupt:
        raise Interrupted(_results(planned, held, failures)) from None
    return _results(planned, held, failures)


def run(experiment: Experiment, **flags: Any) -> Results:
    """Run an experiment from Python: fields take one value or several, run flags as on the command line.

    run(EXPERIMENT, n=(256, 1024), draws=16, seed=0) computes only what the store does not hold yet. memory_budget is in
    bytes, shard a pair (i, k); NumPy's numbers and arrays do as well as Python's. The executor is serial unless named:
    processes would import the calling script again, which then needs a __main__ guard. Raises ValueError for flags that
    cannot be run, RuntimeError when every block failed.
    """
    flags = {name: _plain(value) for name, value in flags.items()}
    known = {field.name for field in dataclasses.fields(Request)} - {"values"}
    fields = {field.name for field in dataclasses.fields(experiment.Setting)}
    values = {
        name: tuple(value) if isinstance(value, (list, tuple, range)) else (value,)
        for name, value in flags.items()
        if name in fields or name not in known
    }
    flags.setdefault("executor", "serial")
    request = Request(values=values, **{name: value for name, value in flags.items() if name not in values})
    results = execute(prepare(experiment, request))
    if not results.samples and results.failures:
        raise RuntimeError(results.failures[0])
    return results


def _plain(value: Any) -> Any:
    """A value or several of them, NumPy's as Python's own."""
    if isinstance(value, (list, tuple)):
        return type(value)(_plain(one) for one in value)
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def _stored(store: Store, task: Task, say: Callable[[str], None]) -> dict[str, np.ndarray] | None:
    try:
        found = store.read(task)
    except DamagedBlock as damaged:
        say(f"damaged block {damaged.path.name[:16]}... is recomputed")
        return None
    return None if found is None else found[0]


def _compute(
    planned: Plan,
    store: Store,
    missing: list[Task],
    held: dict[Task, dict[str, np.ndarray]],
    failures: list[str],
    say: Callable[[str], None],
) -> None:
    name = _executor_name(planned, missing)
    workers = planned.workers
    bench = dataclasses.replace(planned.bench, workers=workers if name == "serial" else 1)
    if name == "processes":
        workers = min(workers, len(missing))
        bench = dataclasses.replace(bench, memory_budget=max(1, (bench.memory_budget or 0) // workers))
        _compile(planned, missing[0], bench)
    executors.settle()
    queue = list(reversed(missing))
    with Progress(len(missing), planned.experiment.name, quiet=planned.request.quiet) as progress:
        while queue:
            with executors.executor(name, workers=workers, scheduler=planned.request.scheduler) as pool:
                flying: dict[Future[Any], Task] = {}
                broken = False
                while (queue and not broken) or flying:
                    while queue and not broken and len(flying) < (1 if name == "serial" else 2 * workers):
                        task = queue.pop()
                        flying[pool.submit(run_task, task.record(), bench)] = task
                    done, _ = wait(flying, return_when=FIRST_COMPLETED)
                    for future in done:
                        task = flying.pop(future)
                        try:
                            arrays, seconds = future.result()
                            note = {"environment": environment(), "seconds": seconds, "device": bench.backend.name}
                            held[task] = arrays  # first: an interrupted write must not hide a finished row
                            store.write(task, arrays, {**note, "executor": name, "key": task.key})
                        except Exception as failure:
                            broken = broken or isinstance(failure, BrokenProcessPool)
                            failures.append(_describe(task, failure))
                            say(failures[-1])
                        progress.advance()


def _executor_name(planned: Plan, missing: list[Task]) -> str:
    """The executor asked for; else processes where there is work enough to pay for starting them."""
    if planned.request.executor:
        return planned.request.executor
    if planned.bench.backend.name == "gpu" or planned.workers == 1 or len(missing) == 1:
        return "serial"
    return "processes" if planned.seconds(missing) > WORTH_PROCESSES else "serial"


def _compile(planned: Plan, task: Task, bench: Bench) -> None:
    """Measure the smallest version of a setting here, so that workers find every kernel in the cache."""
    setting = task.setting
    with contextlib.suppress(Exception):  # a failure here says nothing about the blocks, which report their own
        if hasattr(setting, "n"):
            setting = type(setting)(**{**as_record(setting), "n": min(setting.n, 8)})
        small = dataclasses.replace(task, setting=setting, first=0, count=1)
        run_task(small.record(), bench)


def _describe(task: Task, failure: Exception) -> str:
    draws = f"draws {task.first} to {task.first + task.count - 1}"
    return " ".join(f"failed: {told(task.setting)}, {draws}: {type(failure).__name__}: {failure}".split())


def _results(planned: Plan, held: Mapping[Task, dict[str, np.ndarray]], failures: list[str]) -> Results:
    samples: dict[Any, dict[str, np.ndarray]] = {}
    for setting in planned.settings:
        blocks = [held[task] for task in planned.tasks if task.setting == setting and task in held]
        if blocks:
            samples[setting] = together(blocks)
    provenance = {
        "environment": environment(),
        "draws": planned.request.draws,
        "dtype": planned.request.dtype,
        "spectrum": planned.request.spectrum,
        "store": Path(planned.request.out).name,
        "keys": [task.key for task in planned.tasks if task in held],
        "failures": list(failures),
    }
    missing = len(planned.tasks) - len(held)
    return Results(
        planned.experiment,
        planned.request.seed,
        planned.bench.backend.name,
        provenance,
        samples,
        tuple(failures),
        missing,
    )
