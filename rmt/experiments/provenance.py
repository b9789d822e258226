"""Provenance: what made a result, told without naming the machine that did."""

from __future__ import annotations

import functools
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import rmt

_PACKAGES = ("numpy", "scipy", "numba", "pandas", "matplotlib")


@functools.cache
def environment() -> dict[str, Any]:
    """Versions, BLAS kernel and commit of this process."""
    return {
        "rmt": rmt.__version__,
        "commit": commit(),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        **{name: version(name) for name in _PACKAGES},
        "blas": blas(),
    }


def version(package: str) -> str | None:
    """The installed version of a package, None where it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def blas() -> list[str]:
    """The BLAS libraries loaded, with the kernel each chose: timings and last digits depend on it."""
    import numpy  # noqa: F401  (loads the library that is asked about)
    import threadpoolctl

    found = [
        f"{pool.get('internal_api', '?')} {pool.get('version', '?')} {pool.get('architecture', '')}".strip()
        for pool in threadpoolctl.threadpool_info()
        if pool.get("user_api") == "blas"
    ]
    return sorted(set(found))


def commit() -> str | None:
    """The commit of the source tree, with "+" where files were changed; None outside a checkout."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        head = _git(root, "rev-parse", "--short=12", "HEAD")
        dirty = _git(root, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return None
    return head + ("+" if dirty else "")


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()
