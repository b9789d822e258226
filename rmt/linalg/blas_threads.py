"""One BLAS thread: for thin matrices, and where the rows of a matrix are shared out among threads already."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager

from threadpoolctl import ThreadpoolController

__all__ = ["one_blas_thread"]


def one_blas_thread() -> AbstractContextManager[object]:
    """While entered, a BLAS call uses one thread: the workers share the cores, and their number changes no bit.

    A BLAS thread goes on spinning after its call, on a core that a worker needs.
    """
    return _blas().limit(limits=1, user_api="blas")


@functools.cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()
