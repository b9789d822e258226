"""Singular values of causal averages: matrices that replace token i by a weighted mean of the tokens up to it.

The uniform mean, C_ij = 1/i for j <= i, is the Cesaro matrix. It is bounded and has no single outlier: its largest
singular values form a ladder of about ln n rungs below 2, which a causal attention matrix inherits.

All the averages here are M_ij = a_i r^(i-j), j <= i, whose inverse is bidiagonal, 1/a_i on the diagonal and -r/a_(i-1)
below it: singular values cost O(n), to nearly full relative accuracy.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike
from scipy import optimize, special

from rmt.laws.law import Array

_EXACT = 4096  # from here on the quantisation formula is as good, 1.4e-5 or better


def terraced_singular_values(heights: ArrayLike, count: int, *, decay: float = 1.0) -> Array:
    """The `count` largest singular values, descending, of M_ij = heights_i decay^(i-j), j <= i, all heights > 0.

    heights = 1/i is the uniform mean, 1/(i + c) one with a sink of weight c, (1 - r)/(1 - r^i) with decay r that of a
    linear bias on the logits. Eigenvalues of the symmetric matrix that pairs M^-1 with its transpose, O(n count).
    """
    heights = np.asarray(heights, float)
    n = heights.size
    if not (n >= 1 and np.all(heights > 0)):
        raise ValueError(f"{n} heights, least {heights.min(initial=np.inf)}: give at least one, all > 0")
    count = min(count, n)
    paired = np.empty(2 * n - 1)
    paired[0::2] = 1 / heights
    paired[1::2] = -decay / heights[:-1]
    least = scipy.linalg.eigh_tridiagonal(
        np.zeros(2 * n), paired, eigvals_only=True, select="i", select_range=(n, n + count - 1)
    )
    return 1 / least


def ladder_values(log_length: float, count: int) -> Array:
    """The first `count` rungs of the ladder of a causal mean over e^log_length tokens: 2 > s_1 > s_2 > ... (derived).

    s_k = (1/4 + w_k^2)^(-1/2), w ln n + arg Gamma(2 i w) - 3 arg Gamma(1/2 + i w) = (k - 1/2) pi: in x = ln i the mean is
    translation invariant with symbol 1/(1/2 + i w), and the first tokens reflect with the phase of continuous dual
    Hahn polynomials. For C of n tokens log_length = ln n; relative error over k <= 8: 1.9e-3 (n = 64), 3.4e-4 (256),
    6.5e-5 (1024), 1.3e-5 (4096), 2.3e-6 (20000). Needs log_length > 1.
    """
    if not log_length > 1:
        raise ValueError(f"log_length = {log_length}: the ladder needs a length above e")

    def rung(k: int) -> float:
        def excess(w: float) -> float:
            return ladder_phase(w, log_length) - (k - 0.5) * math.pi

        high = k * math.pi / (log_length + 5)  # the phase starts with a slope of log_length + 4.74 and then bends down
        while excess(high) < 0:
            high *= 1.2
        return (0.25 + optimize.brentq(excess, high / 1.2**30, high) ** 2) ** -0.5

    return np.array([rung(k) for k in range(1, count + 1)])


def ladder_phase(w: float, log_length: float) -> float:
    """w log_length + arg Gamma(2 i w) - 3 arg Gamma(1/2 + i w): (k - 1/2) pi at the k-th rung."""
    reflection = special.loggamma(2j * w).imag - 3 * special.loggamma(0.5 + 1j * w).imag
    return float(w * log_length + reflection)


def rungs_above(value: float, log_length: float) -> float:
    """The number of rungs above a value in (0, 2), as a real number: k - 1/2 exactly on the k-th rung."""
    if not 0 < value < 2:
        raise ValueError(f"value = {value}: rungs lie between 0 and 2")
    return ladder_phase(math.sqrt(1 / value**2 - 0.25), log_length) / math.pi


def cesaro_singular_values(n: int, count: int) -> Array:
    """The `count` largest singular values of the Cesaro matrix of n tokens, relative error at most 1.4e-5 (k <= 8)."""
    if n < 1:
        raise ValueError(f"n = {n}: a causal mean needs at least one token")
    if n <= _EXACT or count > 8:
        return terraced_singular_values(1 / np.arange(1, n + 1), count)
    return ladder_values(math.log(n), count)


def sink_ladder(n: int, weight: float, count: int) -> Array:
    """The ladder of a causal mean with a sink, heights 1/(i + weight): tan(w l) = -2 w, l = ln(1 + n/weight) (derived).

    s_k = (1/4 + w_k^2)^(-1/2), w_k in ((k - 1/2) pi/l, k pi/l). Relative error over k <= 3 below 2e-3 for weight >= 0.8, below
    3e-3 for 0.6. Needs n >= 1 and weight > 0.
    """
    if not (n >= 1 and weight > 0):
        raise ValueError(f"n = {n}, weight = {weight}: needs a token and a sink of positive weight")
    length = math.log1p(n / weight)

    def rung(k: int) -> float:
        def crossing(w: float) -> float:
            return math.sin(w * length) + 2 * w * math.cos(w * length)

        low, high = (k - 0.5) * math.pi / length, k * math.pi / length
        return (0.25 + optimize.brentq(crossing, low, high) ** 2) ** -0.5

    return np.array([rung(k) for k in range(1, count + 1)])


def bessel_ladder(count: int) -> Array:
    """2/j_(0,k), j_(0,k) the zeros of the Bessel function J_0: .8317, .3623, .2311, ...

    Times sqrt(n), the singular values of sqrt(i) C_ij: the causal mean after its rows are normalised (derived).
    """
    return 2 / special.jn_zeros(0, count)
