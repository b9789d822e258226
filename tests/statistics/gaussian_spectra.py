"""Spectra of symmetric Gaussian matrices by the tridiagonal model of Dumitriu and Edelman (2002), O(n^2) each."""

import numpy as np
from scipy.linalg import eigvalsh_tridiagonal


def symmetric_gaussian(generator, count, n):
    """(count, n) eigenvalues, ascending, of symmetric matrices with off-diagonal variance 1/n: semicircle on [-2, 2]."""
    spectra = np.empty((count, n))
    for row in spectra:
        diagonal = generator.normal(0, np.sqrt(2 / n), n)
        row[:] = eigvalsh_tridiagonal(diagonal, np.sqrt(generator.chisquare(np.arange(n - 1, 0, -1)) / n))
    return spectra
