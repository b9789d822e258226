"""Rows of softmax over any number of keys, exactly, for weights of any law given by quadrature nodes."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import PchipInterpolator

from rmt.laws.law import Array

_SCALES = np.geomspace(1e-9, 1e5, 500)  # of t; the integrand is analytic in ln t


def row_variances(weights: ArrayLike, probabilities: ArrayLike, n: int) -> Array:
    """sigma_i^2 = i E sum_j A_ij^2 - 1, i = 1 ... n, of A_ij = F_j/sum_(k <= i) F_k with F iid; shape (n,).

    weights (m,): values of F > 0, probabilities (m,) of each. From 1/S^2 = Int t e^(-t S) dt,
        i E sum_j A_ij^2 = i^2 Int t E[F^2 e^(-t F)] (E e^(-t F))^(i - 1) dt
    (exact; trapezoid rule in ln t, error 1e-8 for F from 1e-3 to 1e3 times its mean), interpolated in ln i between 60 counts.
    """
    F, p = np.asarray(weights, float), np.asarray(probabilities, float)
    F = F / (F @ p)
    decay = np.exp(-np.outer(_SCALES, F))
    square, log_mean = (decay * F**2) @ p, np.log(np.maximum(decay @ p, 1e-300))
    count = np.unique(np.concatenate([np.arange(1, min(n, 20) + 1), np.round(np.geomspace(min(n, 20), n, 60))]))
    step = np.log(_SCALES[1] / _SCALES[0])
    terms = _SCALES**2 * square * np.exp((count[:, None] - 1) * log_mean)
    value = count**2 * terms.sum(axis=1) * step - 1
    i = np.arange(1, n + 1)
    if count.size < 2:
        return np.zeros(n)
    return np.where(i > 1, PchipInterpolator(np.log(count), value)(np.log(i)), 0.0)
