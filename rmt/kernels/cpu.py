"""Numba kernels. Drawn numbers equal those of `reference` bit for bit, on any CPU, for any tiling and thread count.

Each row is made in padded groups of 64 columns. Lane b of 16 and word w of 4 address column 64 g + 16 w + b, so that
the four results of a Philox block land in four contiguous stores and LLVM turns the lane loop into vector code. Only
+ - * sqrt, integer operations and the polynomials below are used; nothing is contracted or reordered.

All of it is one file because Numba renews a cached kernel only when the file of the kernel's own source has changed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from rmt.arrays import Array
from rmt.kernels.compiled import compiled, inlined
from rmt.kernels.rows import LARGEST_NORMAL, LAWS, SAFE_LOGIT, RowSums
from rmt.streams import Words

f4, f8, i4, i8, u4, u8 = np.float32, np.float64, np.int32, np.int64, np.uint32, np.uint64


# Philox4x32-10 (Salmon et al., SC 2011). 64-bit lanes, because a product of two words is one instruction there.

MULTIPLIER0, MULTIPLIER1 = u8(0xD2511F53), u8(0xCD9E8D57)
WEYL0, WEYL1 = u4(0x9E3779B9), u4(0xBB67AE85)
LOW, WORD = u8(0xFFFFFFFF), u8(32)


@inlined
def _philox(c0, c1, c2, c3, k0, k1):
    a, b, c, d = u8(c0), u8(c1), u8(c2), u8(c3)
    for _ in range(10):
        p0 = MULTIPLIER0 * (a & LOW)
        p1 = MULTIPLIER1 * (c & LOW)
        a, b, c, d = (p1 >> WORD) ^ b ^ u8(k0), p1, (p0 >> WORD) ^ d ^ u8(k1), p0  # upper halves of b, d are rubbish
        k0 = u4(k0 + WEYL0)
        k1 = u4(k1 + WEYL1)
    return u4(a & LOW), u4(b & LOW), u4(c & LOW), u4(d & LOW)


instruction: Any = intrinsic  # its published type does not describe how compiled code calls it

# Elementary functions (polynomials of Cephes, single precision; Taylor to 14th order for the double exponential).


@instruction
def _bits(_context, _x):
    return types.int32(types.float32), lambda _c, builder, _s, args: builder.bitcast(args[0], ir.IntType(32))


@instruction
def _real(_context, _x):
    return types.float32(types.int32), lambda _c, builder, _s, args: builder.bitcast(args[0], ir.FloatType())


@instruction
def _bits64(_context, _x):
    return types.int64(types.float64), lambda _c, builder, _s, args: builder.bitcast(args[0], ir.IntType(64))


@instruction
def _real64(_context, _x):
    return types.float64(types.int64), lambda _c, builder, _s, args: builder.bitcast(args[0], ir.DoubleType())


@inlined
def _log(u):
    """ln u for u > 0, normal."""
    b = _bits(u)
    e = i4(i4(b - i4(0x3F3504F3)) >> i4(23))
    f = _real(i4(b - i4(e << i4(23)))) - f4(1)
    p = f4(7.0376836292e-2) * f + f4(-1.1514610310e-1)
    p = p * f + f4(1.1676998740e-1)
    p = p * f + f4(-1.2420140846e-1)
    p = p * f + f4(1.4249322787e-1)
    p = p * f + f4(-1.6668057665e-1)
    p = p * f + f4(2.0000714765e-1)
    p = p * f + f4(-2.4999993993e-1)
    p = p * f + f4(3.3333331174e-1)
    z = f * f
    y = (p * f) * z + f4(e) * f4(-2.12194440e-4)
    y = y - f4(0.5) * z
    return (f + y) + f4(e) * f4(0.693359375)


@inlined
def _exp32(x):
    """e^x for x <= 88; below -87 the value at -87."""
    x = max(x, f4(-87))
    t = x * f4(1.44269504088896341) + f4(12582912.0)  # 1.5 2^23: the sum's last bits are the rounded integer
    k = t - f4(12582912.0)
    e = i4(_bits(t) - i4(0x4B400000))
    r = (x - k * f4(0.693359375)) - k * f4(-2.12194440e-4)
    p = f4(1.9875691500e-4) * r + f4(1.3981999507e-3)
    p = p * r + f4(8.3334519073e-3)
    p = p * r + f4(4.1665795894e-2)
    p = p * r + f4(1.6666665459e-1)
    p = p * r + f4(5.0000001201e-1)
    return ((p * (r * r) + r) + f4(1)) * _real(i4(i4(e + i4(127)) << i4(23)))


TAYLOR = tuple(1.0 / math.factorial(k) for k in range(14, 1, -1))


@inlined
def _exp64(x):
    """e^x for x <= 700; below -700 the value at -700."""
    x = max(x, -700.0)
    t = x * 1.44269504088896341 + 6755399441055744.0
    k = t - 6755399441055744.0
    e = i8(_bits64(t) - i8(0x4338000000000000))
    r = (x - k * 6.93145751953125e-1) - k * 1.42860682030941723212e-6
    p = TAYLOR[0] * r + TAYLOR[1]
    for term in range(2, 13):
        p = p * r + TAYLOR[term]
    return ((p * (r * r) + r) + 1.0) * _real64(i8(i8(e + i8(1023)) << i8(52)))


def _exp(x):
    """e^x in the precision of x."""
    raise NotImplementedError("compiled code only")


@overload(_exp, jit_options={"forceinline": True, "error_model": "numpy"})
def _exp_overload(x):
    if x == types.float32:
        return lambda x: _exp32(x)
    return lambda x: _exp64(x)


# From Philox words to variates.


@inlined
def _uniform(x, y):
    """(0, 1] with 40 bits, from x and the last 8 bits of y; small values keep full relative precision."""
    return f4(x) * f4(2.0**-32) + (f4(i4(y & u4(255))) + f4(0.5)) * f4(2.0**-40)


@inlined
def _normal_pair(x, y):
    """Box-Muller: 40 bits for the radius, the 24 others for the angle (quadrant and place in it)."""
    r = f4(math.sqrt(f4(-2) * _log(_uniform(x, y))))
    quadrant = i4(y >> u4(30))
    place = i4((y >> u4(8)) & u4(0x3FFFFF))
    t = ((f4(place) + f4(0.5)) * f4(2.0**-22) - f4(0.5)) * f4(1.57079632679489662)
    z = t * t
    s = (f4(-1.9515295891e-4) * z + f4(8.3321608736e-3)) * z + f4(-1.6666654611e-1)
    s = (s * z) * t + t
    c = (f4(2.443315711809948e-5) * z + f4(-1.388731625493765e-3)) * z + f4(4.166664568298827e-2)
    c = ((c * z) * z - f4(0.5) * z) + f4(1)
    odd = (quadrant & i4(1)) != 0
    first = s if odd else c
    second = c if odd else s
    first = _real(i4(_bits(first) ^ i4(i4(i4(quadrant + i4(1)) & i4(2)) << i4(30))))
    second = _real(i4(_bits(second) ^ i4(i4(quadrant & i4(2)) << i4(30))))
    return r * first, r * second


@inlined
def _exponential(x, y):
    """-ln u, at least 2^-26: a row of one column must have a positive sum."""
    return max(-_log(_uniform(x, y)), f4(2.0**-26))


@inlined
def _fill_row(z, row, law, k0, k1, c2, c3):
    """Fill a padded row with variates: standard normals (law 0), exponentials (1), uniforms (2), Gamma(2) (3)."""
    for g in range(z.size // 64):
        base = 64 * g
        if law == 0:
            for b in range(16):
                x0, x1, x2, x3 = _philox(u4(16 * g + b), row, c2, c3, k0, k1)
                z0, z1 = _normal_pair(x0, x1)
                z2, z3 = _normal_pair(x2, x3)
                z[base + b] = z0
                z[base + 16 + b] = z1
                z[base + 32 + b] = z2
                z[base + 48 + b] = z3
        elif law == 3:
            for b in range(64):
                x0, x1, x2, x3 = _philox(u4(base + b), row, c2, c3, k0, k1)
                z[base + b] = _exponential(x0, x1) + _exponential(x2, x3)
        else:
            for half in range(2):
                at = base + 32 * half
                for b in range(16):
                    x0, x1, x2, x3 = _philox(u4(32 * g + 16 * half + b), row, c2, c3, k0, k1)
                    if law == 1:
                        z[at + b] = _exponential(x0, x1)
                        z[at + 16 + b] = _exponential(x2, x3)
                    else:
                        z[at + b] = _uniform(x0, x1)
                        z[at + 16 + b] = _uniform(x2, x3)


@compiled
def _variates(out, start, law, k0, k1, c2, c3):
    rows, columns = out.shape
    z = np.empty((columns + 63) // 64 * 64, f4)
    for i in range(rows):
        _fill_row(z, u4(start + i), law, k0, k1, c2, c3)
        for j in range(columns):
            out[i, j] = z[j]


@compiled
def _philox_blocks(out, c0, c1, c2, c3, k0, k1):
    for i in range(c0.size):
        out[0, i], out[1, i], out[2, i], out[3, i] = _philox(c0[i], c1[i], c2[i], c3[i], k0, k1)


# From logits to rows of a stochastic matrix.


@inlined
def _maximum(x, scratch):
    """The largest entry of a padded row, in 64 lanes: one running maximum would be scalar code (it must mind NaN)."""
    for b in range(64):
        scratch[b] = x[b]
    for g in range(1, x.size // 64):
        for b in range(64):
            scratch[b] = x[64 * g + b] if x[64 * g + b] > scratch[b] else scratch[b]
    largest = scratch[0]
    for b in range(64):
        largest = scratch[b] if scratch[b] > largest else largest
    return largest


@inlined
def _exponentiate(x, w, active, shifted):
    """w = e^(x - shift) on the active columns, 0 on the padding; x becomes x - shift, the shift its maximum or 0."""
    for j in range(active, x.size):
        x[j] = x[0]
    shift = _maximum(x, w) if shifted else x.dtype.type(0)
    for j in range(x.size):
        x[j] = x[j] - shift
        w[j] = _exp(x[j])
    for j in range(active, x.size):
        w[j] = w.dtype.type(0)


@inlined
def _row_sums(x, w, lanes, sums):
    """Sum w, w x and w^2: four columns in the working precision, then float64 in 16 lanes, in a fixed order."""
    for b in range(16):
        lanes[0, b] = 0.0
        lanes[1, b] = 0.0
        lanes[2, b] = 0.0
    for g in range(w.size // 64):
        for b in range(16):
            j = 64 * g + b
            w0, w1, w2, w3 = w[j], w[j + 16], w[j + 32], w[j + 48]
            x0, x1, x2, x3 = x[j], x[j + 16], x[j + 32], x[j + 48]
            lanes[0, b] += f8((w0 + w1) + (w2 + w3))
            lanes[1, b] += f8((w0 * x0 + w1 * x1) + (w2 * x2 + w3 * x3))
            lanes[2, b] += f8((w0 * w0 + w1 * w1) + (w2 * w2 + w3 * w3))
    for k in range(3):
        total = 0.0
        for b in range(16):
            total += lanes[k, b]
        sums[k] = total


@inlined
def _normalise(out, w, active, total):
    for j in range(active):
        out[j] = w[j] / total
    for j in range(active, out.size):
        out[j] = w.dtype.type(0)


@inlined
def _add_columns(out, done, column_sums):
    """Add the rows of out[:done] that are not added yet: four at a time, still in cache, each in its turn."""
    if column_sums.size == 0:
        return
    if done % 4 == 0:
        a0, a1, a2, a3 = out[done - 4], out[done - 3], out[done - 2], out[done - 1]
        for j in range(column_sums.size):
            column_sums[j] = (((column_sums[j] + f8(a0[j])) + f8(a1[j])) + f8(a2[j])) + f8(a3[j])
    elif done == out.shape[0]:
        for i in range(done - done % 4, done):
            for j in range(column_sums.size):
                column_sums[j] += f8(out[i, j])


@inlined
def _padded(active):
    return (active + 63) // 64 * 64


@compiled
def _markov_rows(out, start, beta, law, causal, k0, k1, c2, c3, sums, column_sums):
    rows, n = out.shape
    z_row = np.zeros(_padded(n), f4)
    x_row = np.zeros(_padded(n), out.dtype)
    w_row = np.zeros(_padded(n), out.dtype)
    lanes = np.zeros((3, 16))
    scale = out.dtype.type(beta)
    for i in range(rows):
        active = min(start + i + 1, n) if causal else n
        z, x, w = z_row[: _padded(active)], x_row[: _padded(active)], w_row[: _padded(active)]
        _fill_row(z, u4(start + i), law, k0, k1, c2, c3)
        if law == 0:
            for j in range(z.size):
                x[j] = scale * out.dtype.type(z[j])
            _exponentiate(x, w, active, beta * LARGEST_NORMAL > SAFE_LOGIT)
        else:
            for j in range(z.size):
                x[j] = out.dtype.type(_log(z[j]))
            for j in range(active):
                w[j] = out.dtype.type(z[j])
            for j in range(active, z.size):
                w[j] = out.dtype.type(0)
        _row_sums(x, w, lanes, sums[i])
        _normalise(out[i], w, active, out.dtype.type(sums[i, 0]))
        _add_columns(out, i + 1, column_sums)


@compiled
def _softmax_rows(rows, start, causal, sums, column_sums):
    r, n = rows.shape
    x_row = np.zeros(_padded(n), rows.dtype)
    w_row = np.zeros(_padded(n), rows.dtype)
    lanes = np.zeros((3, 16))
    for i in range(r):
        active = min(start + i + 1, n) if causal else n
        x, w = x_row[: _padded(active)], w_row[: _padded(active)]
        for j in range(active):
            x[j] = rows[i, j]
        _exponentiate(x, w, active, True)
        _row_sums(x, w, lanes, sums[i])
        _normalise(rows[i], w, active, rows.dtype.type(sums[i, 0]))
        _add_columns(rows, i + 1, column_sums)


# The product with A^T A, one read of A. Measured, not drawn: here the compiler may reorder sums and contract.

REORDERED = {"reassoc", "contract", "nsz"}
CHUNK = 2048


@inlined(fastmath=REORDERED)
def _short_dot(a, v):
    total = a.dtype.type(0)
    for j in range(a.size):
        total += a[j] * v[j]
    return total


@inlined(fastmath=REORDERED)
def _dot(a, v):
    """a . v in the working precision over 2048 entries at a time, float64 beyond: float32 alone would lose digits."""
    total = 0.0
    for at in range(0, a.size, CHUNK):
        total += f8(_short_dot(a[at : at + CHUNK], v[at : at + CHUNK]))
    return a.dtype.type(total)


@compiled(fastmath=REORDERED)
def _gram_rows(rows, vectors, products):
    r, n = rows.shape
    whole = r - r % 4
    for c in range(vectors.shape[0]):
        v, z = vectors[c], products[c]
        for i in range(0, whole, 4):  # four rows stay in the first cache between the two uses
            a0, a1, a2, a3 = rows[i], rows[i + 1], rows[i + 2], rows[i + 3]
            y0, y1, y2, y3 = _dot(a0, v), _dot(a1, v), _dot(a2, v), _dot(a3, v)
            for j in range(n):
                z[j] += f8((y0 * a0[j] + y1 * a1[j]) + (y2 * a2[j] + y3 * a3[j]))
        for i in range(whole, r):
            a = rows[i]
            y = _dot(a, v)
            for j in range(n):
                z[j] += f8(y * a[j])


# The public names, shared with `reference` and `gpu`.

NOTHING = np.empty(0)


def philox(counters: Array, key: Array) -> Array:
    """Philox4x32-10 of counters (4, m) uint32 under key (2,) uint32: (4, m) uint32."""
    out = np.empty(counters.shape, u4)
    _philox_blocks(out, *(np.ascontiguousarray(c, u4) for c in counters), u4(key[0]), u4(key[1]))
    return out


def variates(words: Words, start: int, stop: int, columns: int, *, law: str = "lognormal") -> Array:
    """Rows start ... stop - 1 of an array of iid variates, (stop - start, columns) float32.

    "lognormal" gives the standard normals under the weights; the other laws give the weights themselves.
    """
    out = np.empty((stop - start, columns), f4)
    _variates(out, start, LAWS.index(law), *_words(words))
    return out


def markov_rows(
    words: Words,
    start: int,
    out: Array,
    *,
    beta: float,
    law: str = "lognormal",
    causal: bool = False,
    column_sums: Array | None = None,
) -> RowSums:
    """Fill `out` (r, n) with rows start ... start + r - 1 of the row-normalised iid weights.

    Adds the column sums of these rows to `column_sums` (n,) float64.
    """
    sums = np.empty((out.shape[0], 3))
    where = NOTHING if column_sums is None else column_sums
    _markov_rows(out, start, float(beta), LAWS.index(law), causal, *_words(words), sums, where)
    return RowSums(sums[:, 0], sums[:, 1], sums[:, 2])


def softmax_rows(logits: Array, start: int, *, causal: bool = False, column_sums: Array | None = None) -> RowSums:
    """Replace logits (r, n), rows start ... start + r - 1, by their row softmax; add to `column_sums` (n,) float64."""
    sums = np.empty((logits.shape[0], 3))
    _softmax_rows(logits, start, causal, sums, NOTHING if column_sums is None else column_sums)
    return RowSums(sums[:, 0], sums[:, 1], sums[:, 2])


def gram_rows(rows: Array, vectors: Array, products: Array) -> None:
    """Add rows^T (rows v) to `products` (b, n) float64, for each v of `vectors` (b, n); rows (r, n), in their dtype."""
    _gram_rows(rows, vectors, products)


def _words(words: Words) -> tuple[np.uint32, ...]:
    return tuple(u4(word) for word in words)
