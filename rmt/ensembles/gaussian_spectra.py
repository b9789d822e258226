"""Spectra of Gaussian matrices in O(n^2) each: what a spectrum is tested against (`rmt.statistics.goodness`).

The tridiagonal and bidiagonal models of Dumitriu and Edelman (2002): the same law of the eigenvalues or singular values,
from 2n random numbers in place of n^2. Chi variates come from uniform ones by inversion.
"""

from __future__ import annotations

import numpy as np
import scipy.special
from scipy.linalg import eigvalsh_tridiagonal

from rmt.arrays import CPU
from rmt.ensembles.parameters import check_count
from rmt.kernels import kernels_for
from rmt.streams import Stream


def symmetric_gaussian_spectra(stream: Stream, count: int, n: int) -> np.ndarray:
    """(count, n) eigenvalues, ascending, of symmetric matrices with off-diagonal variance 1/n and diagonal 2/n.

    The semicircle on [-2, 2] as n grows. Draw k is a function of the stream, n and k.
    """
    check_count("n", n)
    here = stream.within(f"symmetric_gaussian_spectra/n={n}")
    normal, chi = _variates(here, count, n, np.arange(n - 1, 0, -1))
    spectra = np.empty((count, n))
    for at in range(count):
        spectra[at] = eigvalsh_tridiagonal(np.sqrt(2 / n) * normal[at], chi[at] / np.sqrt(n))
    return spectra


def square_gaussian_spectra(stream: Stream, count: int, n: int) -> np.ndarray:
    """(count, n) singular values, ascending, of n x n matrices of independent entries of variance 1/n.

    The quarter circle on [0, 2] as n grows. Small values are right to 1e-8 only (eigenvalues of the squared matrix).
    """
    check_count("n", n)
    here = stream.within(f"square_gaussian_spectra/n={n}")
    _, chi = _variates(here, count, n, np.concatenate([np.arange(n, 0, -1), np.arange(n - 1, 0, -1)]))
    diagonal, below = chi[:, :n], chi[:, n:]
    squares = diagonal**2
    squares[:, 1:] += below**2
    spectra = np.empty((count, n))
    for at in range(count):
        found = eigvalsh_tridiagonal(squares[at] / n, diagonal[at, :-1] * below[at] / n)
        spectra[at] = np.sqrt(np.maximum(found, 0.0))
    return spectra


def _variates(stream: Stream, count: int, n: int, degrees: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Standard normals (count, n) and chi variates (count, len(degrees))."""
    kernels = kernels_for(CPU)
    normal = kernels.variates(stream.words("normal"), 0, count, n).astype(float)
    uniform = kernels.variates(stream.words("uniform"), 0, count, max(degrees.size, 1), law="uniform")
    chance = np.clip(uniform[:, : degrees.size].astype(float), 2.0**-25, 1 - 2.0**-25)
    return normal, np.sqrt(2 * scipy.special.gammaincinv(degrees / 2, chance))
