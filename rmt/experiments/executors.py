"""Executors: serial, processes and dask, all of them `concurrent.futures.Executor`s."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from typing import Any

NAMES = ("serial", "processes", "dask")
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h


class SerialExecutor(Executor):
    """Runs each call at once, in this process; kernels use the bench's threads."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run the call and return its finished future; an interrupt passes through."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as failure:
            future.set_exception(failure)
        return future


@contextlib.contextmanager
def executor(name: str, *, workers: int, scheduler: str | None = None) -> Iterator[Executor]:
    """An executor by name; leaving it through an exception stops its workers at once.

    Raises ValueError for an unknown name, or for dask where dask.distributed is not installed.
    """
    if name == "serial":
        yield SerialExecutor()
    elif name == "processes":
        with _processes(workers) as pool:
            yield pool
    elif name == "dask":
        with _dask(workers, scheduler) as pool:
            yield pool
    else:
        raise ValueError(f"--executor {name}: must be one of {', '.join(NAMES)}")


@contextlib.contextmanager
def _processes(workers: int) -> Iterator[Executor]:
    pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"), initializer=start_worker)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            child.kill()
        raise
    pool.shutdown()


def start_worker() -> None:
    """Prepare a spawned worker: one BLAS thread, deaf to Ctrl-C (the parent decides), gone when its parent is."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    settle()
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent,), daemon=True).start()


def _follow(parent: Any) -> None:
    parent.join()
    os._exit(1)


def settle() -> None:
    """Make this process fit for measuring; no number changes."""
    _single_thread()
    _keep_freed_memory()


def _keep_freed_memory() -> None:
    """Let glibc hold up to 256 MiB of freed memory: a step that asks for as much again spends a third of its time on
    fresh pages otherwise. Other C libraries stay as they are."""
    with contextlib.suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        for parameter, size in ((_M_MMAP_THRESHOLD, 2**25), (_M_TRIM_THRESHOLD, 2**28)):
            mallopt(parameter, size)


def _single_thread() -> None:
    """One BLAS thread in this process: several of them slow small matrices down many times over."""
    import threadpoolctl

    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"  # read by a BLAS that loads later: SciPy brings one of its own
    threadpoolctl.threadpool_limits(1)


@contextlib.contextmanager
def _dask(workers: int, scheduler: str | None) -> Iterator[Executor]:
    try:
        from distributed import Client
    except ImportError as reason:
        raise ValueError("--executor dask: needs dask.distributed; pip install 'rmt-attention[cluster]'") from reason
    if scheduler:
        client = Client(scheduler)
    else:
        client = Client(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None)
    try:
        client.run(settle)
        yield client.get_executor()
    finally:
        client.close()
