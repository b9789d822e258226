"""Store: a folder of content-addressed blocks that knows what is missing and survives a kill."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rmt.experiments.tasks import Task, block_size

_PROVENANCE = "provenance"


class Store:
    """Blocks of raw draws, one file each, named by the key of their task.

    A block is written under a temporary name and renamed, so a reader sees a whole block or none, whatever kills the
    writer; any number of runs may share the folder. Raises ValueError when the folder cannot be made or written.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder).expanduser()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as reason:
            raise ValueError(
                f"--out {self.folder}: cannot be made a folder ({reason.strerror}); choose another"
            ) from reason
        if not os.access(self.folder, os.W_OK):
            raise ValueError(f"--out {self.folder}: is not writable; choose another folder")

    def path(self, task: Task) -> Path:
        """The file of a task's block."""
        return self.folder / task.name / f"{task.key}.npz"

    def write(self, task: Task, arrays: Mapping[str, np.ndarray], provenance: Mapping[str, Any]) -> None:
        """Keep a block; an older block of the same key is replaced when the new one is whole."""
        path = self.path(task)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"task": task.record(), **provenance}, sort_keys=True, allow_nan=False)
        note = np.frombuffer(text.encode(), dtype=np.uint8)
        handle, temporary = tempfile.mkstemp(prefix=".writing-", suffix=".npz", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, **arrays, **{f"{_PROVENANCE}.json": note})  # type: ignore[arg-type]
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise

    def read(self, task: Task) -> tuple[dict[str, np.ndarray], dict[str, Any]] | None:
        """The arrays and provenance of a block, or None where it is missing.

        A short last block is cut out of the whole block if that is there. Raises DamagedBlock for a file that is not
        whole.
        """
        for candidate in self._holders(task):
            path = self.path(candidate)
            if not path.exists():
                continue
            arrays, provenance = _load(path)
            if any(array.shape[:1] != (candidate.count,) for array in arrays.values()):
                raise DamagedBlock(path)
            return {name: array[: task.count] for name, array in arrays.items()}, provenance
        return None

    def _holders(self, task: Task) -> list[Task]:
        whole = block_size(task.setting)
        return [task] if task.count == whole else [task, dataclasses.replace(task, count=whole)]


class DamagedBlock(Exception):
    """A stored block that cannot be read whole; it is recomputed."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self.path = path


def _load(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as block:
            arrays = {name: block[name] for name in block.files}
        note = arrays.pop(f"{_PROVENANCE}.json")
        return arrays, json.loads(note.tobytes().decode())
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as reason:
        raise DamagedBlock(path) from reason
