"""Predictions for the eigenvalues of one attention matrix: the outlier at 1, and the disc that holds all others."""

from __future__ import annotations

import functools
import math

import numpy as np
import scipy.optimize
import scipy.special

from rmt.theorems.layer import Layer
from rmt.theorems.prediction import Approximation, Exact, Prediction, out_of_range

SOURCE = "bordenave2012, rider2014; derived, see rmt.theorems.eigenvalues"
PERRON = "Perron: A 1 = 1, and A is row-stochastic"


def eigenvalue_predictions(layer: Layer, *, removed: bool) -> dict[str, Prediction]:
    """What to expect of the moduli of the eigenvalues of A, or of A - 11^T/n where `removed`, by quantity.

    The largest eigenvalue is 1; removal puts 0 in its place and moves no other (Brauer). The others fill the disc of
    radius sigma_n/sqrt(n): Bordenave, Caputo and Chafai for iid weights. For key-query logits every Hermite degree is a
    bi-invariant piece, free of the others, and the disc of such a sum has the radius sqrt(E s^2), the same (derived).
    The largest modulus of n x n matrices lies above the radius by the factor `largest_modulus` (Ginibre).

    Measured over predicted (medians of 4 draws): iid, n = 256, 512, 1000, beta .5 and .8, exponential weights: 0.998 to
    1.011; key-query, d_k = 64, beta .5, .8: 0.977 to 1.027. Band: 5 %.
    """
    top, second = ("top_eigenvalue_modulus", "second_eigenvalue_modulus")
    if layer.uniform:
        return {}
    found: dict[str, Prediction] = {}
    if not removed:
        found[top] = Exact(value=1.0, band=(1 - 1e-5, 1 + 1e-5), source=PERRON, standing="theorem", validity="always")
    name = top if removed else second
    reason = layer.limits()
    if reason:
        return found | {name: out_of_range(reason, source=SOURCE, statistic="median")}
    value = math.sqrt(layer.variance / layer.n) * largest_modulus(layer.n)

    def about(x: float, slack: float) -> Prediction:
        how = "radius of the disc times the edge of real Ginibre matrices"
        return Approximation(value=x, band=(x - slack, x + slack), statistic="median", source=SOURCE, validity=how)

    found[name] = about(value, 0.05 * value)
    if not removed:
        found["eigenvalue_gap"] = about(1 - value, 0.05 * value)
    return found


@functools.lru_cache(maxsize=256)
def largest_modulus(n: int) -> float:
    """Median of the largest modulus of a real n x n Gaussian matrix with entries of variance 1/n. Range: n >= 16;
    from 10^12 on the value there, 1 to 1e-5.

    Squared moduli of complex Gaussian matrices are, as a set, n independent Gamma(k)/n, k = 1 ... n (Kostlan). A real
    matrix has the same density off the real line in conjugate pairs, hence half as many chances: its law is the square
    root (Rider and Sinclair), and its median the quarter quantile of the complex one. Against sampled real matrices:
    1.041 for 1.048(3) at n = 64, 1.032 for 1.038(3) at n = 256.
    """
    n = min(n, 10**12)
    k = np.arange(max(1, n - int(12 * math.sqrt(n))), n + 1)  # smaller k never carry the largest modulus

    def excess(radius: float) -> float:
        return float(np.sum(np.log(scipy.special.gammainc(k, n * radius**2)))) + math.log(4)

    return float(scipy.optimize.brentq(excess, 1 - 0.5 / math.sqrt(n), 2.0))
