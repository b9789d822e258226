"""Initial weights: the usual laws of a weight matrix before training, all with entries of mean 0 and variance 1."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri

from rmt.arrays import CPU
from rmt.ensembles.parameters import check_choice, check_count
from rmt.kernels import kernels_for
from rmt.streams import Words

WEIGHT_INITS = ("gaussian", "uniform", "truncated", "orthogonal", "rademacher")
_CUT = 2.0  # truncated normal weights end here, in standard deviations of the normal law before it is cut
_INSIDE = math.erf(_CUT / math.sqrt(2))
_CUT_DEVIATION = math.sqrt(1 - 2 * _CUT * math.exp(-(_CUT**2) / 2) / math.sqrt(2 * math.pi) / _INSIDE)


def initial_weights(words: Words, rows: int, columns: int, *, init: str = "gaussian") -> np.ndarray:
    """One weight matrix (rows, columns) float32 on the host; scale it to the variance that is wanted.

    "gaussian"; "uniform" on (-sqrt 3, sqrt 3); "truncated", normal cut at two deviations; "rademacher", signs;
    "orthogonal", Haar distributed with W^T W = rows I, or W W^T = columns I where it is wide.
    """
    check_count("rows", rows)
    check_count("columns", columns)
    check_choice("weight_init", init, WEIGHT_INITS)
    kernels = kernels_for(CPU)
    if init == "gaussian":
        return kernels.variates(words, 0, rows, columns)
    if init == "orthogonal":
        basis = orthonormal(kernels.variates(words, 0, rows, columns).astype(np.float64))
        return (math.sqrt(max(rows, columns)) * basis).astype(np.float32)
    u = kernels.variates(words, 0, rows, columns, law="uniform").astype(np.float64)
    if init == "uniform":
        return (math.sqrt(3) * (2 * u - 1)).astype(np.float32)
    if init == "rademacher":
        return np.where(u > 0.5, 1.0, -1.0).astype(np.float32)
    return (ndtri(0.5 + _INSIDE * (np.minimum(u, 1 - 2.0**-41) - 0.5)) / _CUT_DEVIATION).astype(np.float32)


def orthonormal(normals: np.ndarray) -> np.ndarray:
    """Haar orthonormal columns (rows if there are more columns than rows) from a matrix of independent N(0, 1)."""
    tall = normals if normals.shape[0] >= normals.shape[1] else normals.T
    basis, triangle = np.linalg.qr(tall)
    basis = basis * np.sign(np.diag(triangle))  # without the signs the law would be LAPACK's, not Haar's
    return basis if tall is normals else basis.T
