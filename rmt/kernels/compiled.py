"""How kernels are compiled: strict IEEE arithmetic, without the GIL, cached in the user's cache folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba


def inlined(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Part of a kernel, merged into its callers so that their loops can become vector code."""
    if function is None:
        return lambda wrapped: inlined(wrapped, **options)
    return numba.njit(forceinline=True, error_model="numpy", **options)(function)


def compiled(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile on first use and keep the result on disk (two processes may share the folder: files are renamed in).

    The folder is NUMBA_CACHE_DIR, or else `rmt/numba` in the user's cache folder, so that a package installed read-only
    still caches. Without `fastmath` in the options LLVM may neither reorder nor contract: the source decides the bits.
    """
    if function is None:
        return lambda wrapped: compiled(wrapped, **options)
    settings: Any = numba.config
    kernel = numba.njit(nogil=True, error_model="numpy", **options)(function)
    chosen = settings.CACHE_DIR
    settings.CACHE_DIR = chosen or str(cache_folder())  # read when caching is enabled; other users' kernels keep theirs
    try:
        kernel.enable_caching()
    except RuntimeError:  # no folder is writable: compile in every process
        pass
    finally:
        settings.CACHE_DIR = chosen
    return kernel


def cache_folder() -> Path:
    """Where compiled kernels go unless NUMBA_CACHE_DIR says otherwise."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rmt" / "numba"
