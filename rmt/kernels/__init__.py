"""The hot loops, three times under the same names: `reference` (any array library), `cpu` (Numba), `gpu` (CuPy)."""

from __future__ import annotations

from types import ModuleType

from rmt.arrays import Backend


def kernels_for(backend: Backend) -> ModuleType:
    """The kernel module of a backend; imported here, because Numba and CuPy are slow to import."""
    if backend.name == "cpu":
        from rmt.kernels import cpu

        return cpu
    from rmt.kernels import gpu

    return gpu
