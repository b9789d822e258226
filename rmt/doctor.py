"""Doctor: what this machine offers to rmt, and why something is missing."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any


def examine() -> dict[str, Any]:
    """Look at the machine: versions, BLAS kernels and threads, Numba, CuPy, memory and caches."""
    return {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "packages": {
            name: _version(name) for name in ("numpy", "scipy", "numba", "pandas", "matplotlib", "distributed")
        },
        "cores": {"usable": _usable_cores(), "all": os.cpu_count()},
        "memory": _memory(),
        "blas": _blas(),
        "numba": _numba(),
        "gpu": _gpu(),
        "caches": _caches(),
    }


def main(argv: Sequence[str] = ()) -> int:
    """`rmt doctor [--format json]`: print what was found; returns the exit code."""
    from rmt.parser import Parser

    parser = Parser(prog="rmt doctor", description=__doc__)
    parser.add_argument("--format", choices=("table", "json"), default="table")
    try:
        form = parser.parse_args(list(argv)).format
    except SystemExit as stop:
        return int(stop.code or 0)
    found = examine()
    if form == "json":
        print(json.dumps(found, indent=1, allow_nan=False))
        return 0
    from rich.console import Console
    from rich.table import Table

    table = Table(title="rmt doctor", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for topic, answer in found.items():
        table.add_row(topic, _in_words(answer))
    console = Console()
    with console.capture() as text:
        console.print(table)
    print(text.get(), end="")
    return 0


def _in_words(answer: Any) -> str:
    if isinstance(answer, dict):
        return "\n".join(f"{name}: {_in_words(value)}" for name, value in answer.items())
    if isinstance(answer, list):
        return "\n".join(_in_words(value) for value in answer)
    return "not installed" if answer is None else str(answer)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _usable_cores() -> int | None:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _memory() -> str:
    from rmt.arrays import CPU

    return f"{CPU.memory() / 2**30:.1f} GiB free"


def _blas() -> list[str]:
    import scipy.linalg  # noqa: F401  (NumPy and SciPy each bring a BLAS: load both before asking)
    import threadpoolctl

    return [
        f"{pool.get('internal_api')} {pool.get('version')}: {pool.get('architecture', 'unknown')} kernel, "
        f"{pool.get('num_threads')} threads (rmt sets 1 while it computes)"
        for pool in threadpoolctl.threadpool_info()
        if pool.get("user_api") == "blas"
    ] + [
        f"{name} is set to {os.environ[name]}"
        for name in ("OPENBLAS_CORETYPE", "OPENBLAS_NUM_THREADS")
        if name in os.environ
    ]


def _numba() -> str:
    version = _version("numba")
    if version is None:
        return "not installed: pip install numba"
    try:
        import llvmlite.binding as llvm

        return f"{version}, compiles for {llvm.get_host_cpu_name()}"
    except Exception as reason:
        return f"{version}, but it cannot compile: {reason}"


def _gpu() -> str:
    from rmt.arrays import gpu_unavailable

    reason = gpu_unavailable()
    return f"unavailable: {reason}" if reason else "available through CuPy"


def _caches() -> dict[str, str]:
    from rmt.kernels.compiled import cache_folder

    folder = os.environ.get("NUMBA_CACHE_DIR") or str(cache_folder())
    return {
        "compiled kernels": folder.replace(str(Path.home()), "~"),
        "results": "reports/results below the working folder",
    }
