"""Progress: one bar on a terminal's stderr, nothing when piped or quiet."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any


class Progress:
    """A bar over a known number of blocks."""

    def __init__(self, total: int, label: str, *, quiet: bool = False) -> None:
        self._bar: Any = None
        if quiet or not sys.stderr.isatty():
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task(label, total=total)

    def __enter__(self) -> Progress:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def advance(self) -> None:
        """One more block is done."""
        if self._bar:
            self._bar.advance(self._task)
