"""Where arrays live: an explicit backend, never a global one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

Array = Any


def gpu_unavailable() -> str | None:
    """Say why CuPy cannot compute here, in one line, or None if it can."""
    try:
        import cupy
    except ModuleNotFoundError:
        return "CuPy is not installed (pip install 'rmt-attention[cuda12]' or [cuda13])"
    except Exception as error:  # a broken CUDA installation can raise anything while it loads
        return f"CuPy does not load: {_first_line(error)}"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"no usable CUDA driver: {_first_line(error)}"
    return None if count else "the CUDA driver reports no device"


@dataclass(frozen=True)
class Backend:
    """An array library and the memory it computes in. Use the constants `CPU` and `GPU`."""

    name: str

    def __post_init__(self) -> None:
        if self.name not in ("cpu", "gpu"):
            raise ValueError(f"device {self.name!r} is unknown; choose cpu or gpu")

    @property
    def xp(self) -> ModuleType:
        """The array namespace. Raises ValueError with the reason where the device is missing."""
        if self.name == "cpu":
            return np
        reason = gpu_unavailable()
        if reason is not None:
            raise ValueError(f"device gpu is not available: {reason}; use --device cpu")
        import cupy

        return cupy

    def asarray(self, x: Array, dtype: Any = None) -> Array:
        """Move an array, from either memory, to this backend."""
        return np.asarray(to_host(x), dtype=dtype) if self.name == "cpu" else self.xp.asarray(x, dtype=dtype)

    def to_host(self, x: Array) -> np.ndarray:
        """Copy an array to the host (no copy if it is there already)."""
        return to_host(x)

    def memory(self) -> int:
        """Bytes that can be allocated now."""
        if self.name == "gpu":
            free, _total = self.xp.cuda.runtime.memGetInfo()
            return int(free + self.xp.get_default_memory_pool().free_bytes())
        return _host_memory()


CPU = Backend("cpu")
GPU = Backend("gpu")


def to_host(x: Array) -> np.ndarray:
    """The array as numpy, whichever backend it came from."""
    if isinstance(x, np.ndarray):
        return x
    if type(x).__module__.partition(".")[0] == "cupy":
        return x.get()
    return np.asarray(x)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _host_memory() -> int:
    """MemAvailable, cut by a cgroup limit where one is set; physical memory where neither is known."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    try:
        with open("/proc/meminfo") as lines:
            limits += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
        with open("/sys/fs/cgroup/memory.max") as limit, open("/sys/fs/cgroup/memory.current") as current:
            limits.append(int(limit.read()) - int(current.read()))
    except (OSError, ValueError):  # macOS has neither file, and "max" is not a number
        pass
    return max(0, min(limits))
