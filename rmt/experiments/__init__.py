"""Experiments: settings, tasks, the store, executors, and the audit of what was measured against what was predicted."""

from __future__ import annotations

from typing import Any

__all__ = ["Bench", "Cost", "Experiment", "Results", "Store"]

_HOMES = {
    "Bench": "experiment",
    "Cost": "experiment",
    "Experiment": "experiment",
    "Results": "results",
    "Store": "store",
}


def __getattr__(name: str) -> Any:
    # Names load when asked for, so that a plain --help stays quick.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
