"""Value tokens: what the attention matrix averages."""

from __future__ import annotations

from typing import Any

import numpy as np

from rmt.arrays import CPU, Array, Backend
from rmt.ensembles.parameters import check_choice, check_count, check_dtype
from rmt.ensembles.walk import in_order, strips
from rmt.kernels import kernels_for
from rmt.linalg.blas_threads import one_blas_thread
from rmt.streams import Stream

TOKENS = ("gaussian", "orthonormal")


def value_tokens(
    stream: Stream,
    draw: int,
    n: int,
    width: int,
    value_width: int,
    *,
    tokens: str = "gaussian",
    backend: Backend = CPU,
    dtype: Any = np.float32,
    workers: int = 1,
) -> Array:
    """V = X_0 W, (n, value_width), with W (width, value_width) of iid N(0, 1) entries, independent of any attention.

    "gaussian": X_0 (n, width) has iid N(0, 1) entries; the entries of V have variance `width`.
    "orthonormal": X_0 X_0^T = I, which needs n <= width. Then V is exactly a matrix of iid N(0, 1) entries, whatever
    X_0 is: W is invariant under rotations of its columns, and the rows of X_0 are part of an orthonormal basis. So V is
    drawn directly, and `width` does not enter its law.
    Numbers are made on the host in float32 and uploaded; the product is taken in `dtype`.
    """
    check_count("n", n)
    check_count("width", width)
    check_count("value_width", value_width)
    check_choice("tokens", tokens, TOKENS)
    if tokens == "orthonormal" and n > width:
        raise ValueError(
            f"n = {n} orthonormal tokens do not fit into width = {width}; take n <= width, or other tokens"
        )
    kernels, dtype = kernels_for(CPU), check_dtype(dtype)
    here = stream.within(f"tokens/n={n}/width={width}/value_width={value_width}/{tokens}")
    if tokens == "orthonormal":
        return backend.asarray(kernels.variates(here.words("values", draw), 0, n, value_width), dtype)
    weights = backend.asarray(kernels.variates(here.words("weights", draw), 0, width, value_width), dtype)
    words = here.words("tokens", draw)
    out = backend.xp.empty((n, value_width), dtype=dtype)

    def strip(at: tuple[int, int]) -> None:
        out[at[0] : at[1]] = backend.asarray(kernels.variates(words, *at, width), dtype) @ weights

    with one_blas_thread():
        for _ in in_order(strip, strips(n), workers):
            pass
    return out
