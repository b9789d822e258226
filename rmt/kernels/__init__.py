"""The hot loops, three times under the same names: `reference` (any array library), `cpu` (Numba), `gpu` (CuPy)."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from rmt.arrays import Backend


def kernels_for(backend: Backend) -> ModuleType:
    """The kernel module of a backend; imported here, because Numba and CuPy are slow to import."""
    return import_module(f"rmt.kernels.{backend.name}")
