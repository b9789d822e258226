"""Masks: which keys a query sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rmt.ensembles.parameters import check_choice, check_count

MASKS = ("none", "causal", "window")


@dataclass(frozen=True)
class Mask:
    """ "none": all keys. "causal": query i sees the keys up to i. "window": it sees the last `window` of these."""

    name: str = "none"
    window: int | None = None

    def __post_init__(self) -> None:
        check_choice("mask", self.name, MASKS)
        if (self.window is not None) != (self.name == "window"):
            raise ValueError(
                f"mask {self.name} with window {self.window}: a window belongs to mask window, and needs one"
            )
        if self.window is not None:
            check_count("window", self.window)

    def seen(self, start: int, rows: int, n: int, *, xp: Any) -> Any:
        """(rows, n) bool: what queries start ... start + rows - 1 see."""
        query, key = xp.arange(start, start + rows)[:, None], xp.arange(n)[None, :]
        if self.name == "none":
            return xp.ones((rows, n), dtype=bool)
        seen = key <= query
        return seen & (key > query - self.window) if self.window is not None else seen
