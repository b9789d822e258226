"""Experiment: one scientific question, bundled as plain functions over a setting."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any


@dataclasses.dataclass(frozen=True)
class Bench:
    """What a measurement works with: never part of what is drawn.

    backend: where arrays live; dtype: of logits and attention matrices ("float32", "float64");
    spectrum: one of the experiment's `spectra`; workers: threads for the kernels; memory_budget: bytes.
    """

    backend: Any
    dtype: str = "float32"
    spectrum: str = "none"
    workers: int = 1
    memory_budget: int | None = None

    @property
    def xp(self) -> Any:
        """The array namespace of the backend."""
        return self.backend.xp


@dataclasses.dataclass(frozen=True)
class Cost:
    """What one draw of a setting takes on one core: seconds (rough), peak bytes, and the least bytes it can do with."""

    seconds: float
    memory: int
    least_memory: int


def _unknown_cost(setting: Any, bench: Bench) -> Cost:
    return Cost(seconds=1.0, memory=0, least_memory=0)


@dataclasses.dataclass(frozen=True)
class Experiment:
    """One scientific question.

    name: of the experiment and of its figure.
    Setting: frozen dataclass whose fields are the flags.
    measure(setting, draws: range, stream, bench) -> {quantity: array with one entry (or row) per draw}. A name that
        starts with "_" is kept in the store and makes no row; "given_draw:QUANTITY" holds what a law says of that draw,
        "note:QUANTITY" a word that a draw has to say of itself (such as why it is undefined), or "".
    predict(setting) -> {quantity: Prediction, or {index value: Prediction}}.
    figure(results) -> matplotlib figure.
    sweep: the default sweep, {field: values}.
    claims(results) -> list of Claim; summary(results) -> one plain sentence.
    version rises when `measure` changes meaning.
    index: {quantity: index name} for quantities with one entry per layer or rank; index values count from 1.
    headline: quantities shown in the table; all of them where empty.
    deterministic(setting): whether every draw must give the same numbers.
    spectra: the values of --spectrum that `measure` knows.
    devices: where `measure` can compute; "gpu" only if it works on the bench's backend.
    cost(setting, bench) -> Cost, for the dry run and the memory budget.
    """

    name: str
    Setting: type
    measure: Callable[..., dict[str, Any]]
    predict: Callable[[Any], Mapping[str, Any]] | None = None
    figure: Callable[[Any], Any] | None = None
    sweep: Mapping[str, tuple[Any, ...]] = dataclasses.field(default_factory=dict)
    claims: Callable[[Any], list[Any]] | None = None
    summary: Callable[[Any], str] | None = None
    version: int = 1
    index: Mapping[str, str] = dataclasses.field(default_factory=dict)
    headline: tuple[str, ...] = ()
    spectra: tuple[str, ...] = ("none", "full")
    devices: tuple[str, ...] = ("cpu",)
    deterministic: Callable[[Any], bool] = lambda setting: False
    cost: Callable[[Any, Bench], Cost] = _unknown_cost

    @property
    def module(self) -> str:
        """Where a worker finds this experiment: a module name, or the path of a file."""
        name = self.measure.__module__
        if name != "__main__":
            module = sys.modules.get(name)
            path = getattr(module, "__rmt_file__", None)
            return path or name
        main = sys.modules["__main__"]
        spec = getattr(main, "__spec__", None)
        if spec is not None:
            return spec.name
        path = getattr(main, "__file__", None)
        if path is None:
            raise ValueError("an experiment typed at a prompt has no file that workers could import; save it to a file")
        return str(Path(path).resolve())

    @property
    def doc(self) -> str:
        """The docstring of the experiment's module."""
        module = sys.modules.get(self.measure.__module__)
        return (getattr(module, "__doc__", None) or self.name).strip()


def by_quantity(records: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Records of single draws, all with the same names, as arrays with one entry (or row) per draw."""
    import numpy as np

    held = list(records)
    return {name: np.array([record[name] for record in held]) for name in held[0]}


def load(reference: str) -> Experiment:
    """The EXPERIMENT of a module name or of a Python file.

    Raises ValueError, in one line, when there is none.
    """
    try:
        if reference.endswith(".py"):
            module = _load_file(Path(reference).expanduser().resolve())
        else:
            module = importlib.import_module(reference)
    except (Exception, SystemExit) as reason:  # the file is the user's: it can raise anything
        raise ValueError(f"{reference}: cannot be imported ({_why(reason)})") from reason
    experiment = getattr(module, "EXPERIMENT", None)
    if not isinstance(experiment, Experiment):
        raise ValueError(f"{reference}: must end in EXPERIMENT = Experiment(...)")
    return experiment


def _why(reason: BaseException) -> str:
    """What went wrong, and in which line of which file if that is not said already."""
    if isinstance(reason, (ImportError, OSError, SyntaxError)):
        return str(reason)
    frame = traceback.extract_tb(reason.__traceback__)[-1]
    return f"{type(reason).__name__}: {reason}; {Path(frame.filename).name}, line {frame.lineno}"


def _load_file(path: Path) -> ModuleType:
    name = f"rmt_experiment_{path.stem}"
    loaded = sys.modules.get(name)
    if loaded is not None and getattr(loaded, "__rmt_file__", None) == str(path):
        return loaded
    if not path.is_file():
        raise OSError("no such file")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.__rmt_file__ = str(path)  # type: ignore[attr-defined]
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # its neighbours can be imported, as with `python FILE`, in workers too
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
