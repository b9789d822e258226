"""The kernels in plain array code: the oracle of the compiled ones, and itself the GPU path on CuPy arrays.

Every function takes the array namespace `xp` (NumPy or CuPy) and does, operation by operation, what `cpu` does, so
that drawn numbers agree bit for bit: single operations of IEEE arithmetic round alike everywhere. Whole tiles are
computed at once; memory is about 20 arrays of the tile's size.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rmt.arrays import Array
from rmt.kernels.rows import LARGEST_NORMAL, LAWS, SAFE_LOGIT, RowSums
from rmt.streams import Words

f4, f8, i4, i8, u4, u8 = np.float32, np.float64, np.int32, np.int64, np.uint32, np.uint64


def philox(counters: Array, key: Array, *, xp: Any = np) -> Array:
    """Philox4x32-10 of counters (4, ...) uint32 under key (2,): (4, ...) uint32.

    Salmon, Moraes, Dror, Shaw, Parallel random numbers: as easy as 1, 2, 3 (SC 2011).
    """
    c0, c1, c2, c3 = (counters[k].astype(u8) for k in range(4))
    k0, k1 = int(key[0]), int(key[1])
    low, word = u8(0xFFFFFFFF), u8(32)
    for _ in range(10):
        p0, p1 = u8(0xD2511F53) * c0, u8(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (p1 >> word) ^ c1 ^ u8(k0), p1 & low, (p0 >> word) ^ c3 ^ u8(k1), p0 & low
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return xp.stack([c.astype(u4) for c in (c0, c1, c2, c3)])


def log(u: Array) -> Array:
    """ln u in float32 for normal u > 0, error about 1 ulp: the Cephes polynomial on [sqrt(1/2), sqrt(2))."""
    b = u.view(i4)
    e = (b - i4(0x3F3504F3)) >> i4(23)
    f = (b - (e << i4(23))).view(f4) - f4(1)
    p = f4(7.0376836292e-2) * f + f4(-1.1514610310e-1)
    for term in (
        1.1676998740e-1,
        -1.2420140846e-1,
        1.4249322787e-1,
        -1.6668057665e-1,
        2.0000714765e-1,
        -2.4999993993e-1,
        3.3333331174e-1,
    ):
        p = p * f + f4(term)
    z = f * f
    e = e.astype(f4)
    y = (p * f) * z + e * f4(-2.12194440e-4)
    y = y - f4(0.5) * z
    return (f + y) + e * f4(0.693359375)


def exp(x: Array, *, xp: Any = np) -> Array:
    """e^x in the dtype of x (float32: -87 <= x <= 88, float64: |x| <= 700; smaller x count as that end)."""
    return _exp32(x, xp) if x.dtype == f4 else _exp64(x, xp)


def _exp32(x: Array, xp: Any) -> Array:
    x = xp.maximum(x, f4(-87))
    t = x * f4(1.44269504088896341) + f4(12582912.0)
    k = t - f4(12582912.0)
    e = t.view(i4) - i4(0x4B400000)
    r = (x - k * f4(0.693359375)) - k * f4(-2.12194440e-4)
    p = f4(1.9875691500e-4) * r + f4(1.3981999507e-3)
    for term in (8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1):
        p = p * r + f4(term)
    return ((p * (r * r) + r) + f4(1)) * ((e + i4(127)) << i4(23)).view(f4)


def _exp64(x: Array, xp: Any) -> Array:
    x = xp.maximum(x, f8(-700))
    t = x * f8(1.44269504088896341) + f8(6755399441055744.0)
    k = t - f8(6755399441055744.0)
    e = t.view(i8) - i8(0x4338000000000000)
    r = (x - k * f8(6.93145751953125e-1)) - k * f8(1.42860682030941723212e-6)
    p = f8(1.0 / math.factorial(14)) * r + f8(1.0 / math.factorial(13))
    for order in range(12, 1, -1):
        p = p * r + f8(1.0 / math.factorial(order))
    return ((p * (r * r) + r) + f8(1)) * ((e + i8(1023)) << i8(52)).view(f8)


def uniform(x: Array, y: Array) -> Array:
    """(0, 1] float32 with 40 bits: the word x and the last 8 bits of y. The smallest value is 2^-41."""
    return x.astype(f4) * f4(2.0**-32) + ((y & u4(255)).astype(f4) + f4(0.5)) * f4(2.0**-40)


def normal_pair(x: Array, y: Array, *, xp: Any = np) -> tuple[Array, Array]:
    """Two independent standard normals (Box-Muller): 40 bits for the radius, the other 24 for the angle."""
    r = xp.sqrt(f4(-2) * log(uniform(x, y)))
    quadrant = (y >> u4(30)).astype(i4)
    place = ((y >> u4(8)) & u4(0x3FFFFF)).astype(f4)
    t = ((place + f4(0.5)) * f4(2.0**-22) - f4(0.5)) * f4(1.57079632679489662)
    z = t * t
    s = (f4(-1.9515295891e-4) * z + f4(8.3321608736e-3)) * z + f4(-1.6666654611e-1)
    s = (s * z) * t + t
    c = (f4(2.443315711809948e-5) * z + f4(-1.388731625493765e-3)) * z + f4(4.166664568298827e-2)
    c = ((c * z) * z - f4(0.5) * z) + f4(1)
    odd = (quadrant & i4(1)) != 0
    first, second = xp.where(odd, s, c), xp.where(odd, c, s)
    first = (first.view(i4) ^ (((quadrant + i4(1)) & i4(2)) << i4(30))).view(f4)
    second = (second.view(i4) ^ ((quadrant & i4(2)) << i4(30))).view(f4)
    return r * first, r * second


def exponential(x: Array, y: Array, *, xp: Any = np) -> Array:
    """-ln u, at least 2^-26: a row of one column must have a positive sum."""
    return xp.maximum(-log(uniform(x, y)), f4(2.0**-26))


def variates(words: Words, start: int, stop: int, columns: int, *, law: str = "lognormal", xp: Any = np) -> Array:
    """Rows start ... stop - 1 of iid variates, (stop - start, columns) float32; see `cpu.variates`.

    A Philox block (c0, row, counter2, draw) makes four normals (columns 64 g + 16 w + b from c0 = 16 g + b), two
    exponentials or uniforms (columns 32 h + 16 w + b from c0 = 16 h + b), or one Gamma(2) variate (column c0).
    """
    rows, padded = stop - start, (columns + 63) // 64 * 64
    per_block = {"lognormal": 4, "exponential": 2, "uniform": 2, "gamma": 1}[law]
    key0, key1, upper2, upper3 = words
    c0 = xp.broadcast_to(xp.arange(padded // per_block, dtype=u4)[None, :], (rows, padded // per_block))
    c1 = xp.broadcast_to(xp.arange(start, stop, dtype=u4)[:, None], c0.shape)
    upper = [xp.full(c0.shape, word, dtype=u4) for word in (upper2, upper3)]
    x0, x1, x2, x3 = philox([c0, c1, *upper], (key0, key1), xp=xp)
    if law == "lognormal":
        results = [*normal_pair(x0, x1, xp=xp), *normal_pair(x2, x3, xp=xp)]
    elif law == "exponential":
        results = [exponential(x0, x1, xp=xp), exponential(x2, x3, xp=xp)]
    elif law == "uniform":
        results = [uniform(x0, x1), uniform(x2, x3)]
    else:
        results = [exponential(x0, x1, xp=xp) + exponential(x2, x3, xp=xp)]
    lanes = xp.stack([result.reshape(rows, -1, 16) for result in results], axis=2)
    return xp.ascontiguousarray(lanes.reshape(rows, padded)[:, :columns])


def markov_rows(
    words: Words,
    start: int,
    out: Array,
    *,
    beta: float,
    law: str = "lognormal",
    causal: bool = False,
    column_sums: Array | None = None,
    xp: Any = np,
) -> RowSums:
    """Fill `out` (r, n) with rows of the row-normalised iid weights; see `cpu.markov_rows`."""
    if law not in LAWS:
        raise ValueError(f"weights {law!r} is unknown; choose {' or '.join(LAWS)}")
    rows, n = out.shape
    z = variates(words, start, start + rows, n, law=law, xp=xp)
    active = _active(rows, n, start, causal, xp)
    if law == "lognormal":
        shifted = beta * LARGEST_NORMAL > SAFE_LOGIT
        logits, weights = _exponentiate(out.dtype.type(beta) * z.astype(out.dtype), active, shifted, xp)
    else:
        logits, weights = log(z).astype(out.dtype), z.astype(out.dtype)
    return _normalise(logits, weights, active, out, column_sums, xp)


def softmax_rows(
    logits: Array,
    start: int,
    *,
    causal: bool = False,
    column_sums: Array | None = None,
    xp: Any = np,
) -> RowSums:
    """Replace logits (r, n) by their row softmax; see `cpu.softmax_rows`."""
    rows, n = logits.shape
    active = _active(rows, n, start, causal, xp)
    return _normalise(*_exponentiate(logits, active, True, xp), active, logits, column_sums, xp)


def _active(rows: int, n: int, start: int, causal: bool, xp: Any) -> Array:
    """Which entries of the rows the mask leaves: (rows, n) bool."""
    if causal:
        return xp.arange(n)[None, :] <= xp.arange(start, start + rows)[:, None]
    return xp.ones((rows, n), dtype=bool)


def _exponentiate(logits: Array, active: Array, shifted: bool, xp: Any) -> tuple[Array, Array]:
    """l - shift and e^(l - shift), where the shift is the row maximum or 0. What is masked may hold anything."""
    logits = xp.where(active, logits, logits.dtype.type(-xp.inf))
    if shifted:
        logits = logits - xp.max(logits, axis=1)[:, None]
    logits = xp.where(active, logits, logits.dtype.type(0))
    return logits, exp(logits, xp=xp)


def _normalise(logits: Array, weights: Array, active: Array, out: Array, column_sums: Array | None, xp: Any) -> RowSums:
    zero = out.dtype.type(0)
    logits, weights = xp.where(active, logits, zero), xp.where(active, weights, zero)
    total = _row_sum(weights, xp)
    out[...] = weights / total.astype(out.dtype)[:, None]
    if column_sums is not None:
        for row in out:
            column_sums += row
    return RowSums(total, _row_sum(weights * logits, xp), _row_sum(weights * weights, xp))


def _row_sum(x: Array, xp: Any) -> Array:
    """Row sums in the one order that all kernels share: (r, n) -> (r,) float64."""
    rows, n = x.shape
    groups = (n + 63) // 64
    padded = xp.zeros((rows, 64 * groups), dtype=x.dtype)
    padded[:, :n] = x
    lanes = padded.reshape(rows, groups, 4, 16)
    parts = ((lanes[:, :, 0] + lanes[:, :, 1]) + (lanes[:, :, 2] + lanes[:, :, 3])).astype(f8)
    total = xp.zeros((rows, 16))
    for group in range(groups):
        total = total + parts[:, group]
    last = xp.zeros(rows)
    for lane in range(16):
        last = last + total[:, lane]
    return last


def gram_rows(rows: Array, vectors: Array, products: Array) -> None:
    """Add rows^T (rows v) to `products` (b, n) float64 for each of the `vectors` (b, n); see `cpu.gram_rows`."""
    products += (vectors @ rows.T) @ rows
