"""Layer-normalised anisotropic tokens: what dividing every token by its length does to their covariance."""

from __future__ import annotations

import numpy as np

from rmt.laws.law import Array

_NODES = 600  # the integrand is analytic in log t: the trapezoid rule errs by less than 1e-12


def normalised_covariance(covariance: Array) -> Array:
    """Covariance of x = sqrt(d) y/|y| for y ~ N(0, covariance), (d, d), of any scale and rank >= 2; its trace is d.

    1/|y|^2 = Int_0^inf e^(-t |y|^2) dt makes the average Gaussian: with c the eigenvalues of the covariance, the result has the
    same eigenvectors and the eigenvalues d Int c_k/(1 + 2 c_k t) prod_j (1 + 2 c_j t)^(-1/2) dt (exact; the trace is that
    integral of a derivative). A strong direction makes its own tokens long, so that it loses: of a spectrum 1/k in d = 256
    the first eigenvalue keeps 83 % of its share. For layer norm give the covariance of the centred tokens.
    """
    values, vectors = np.linalg.eigh(np.asarray(covariance, float))
    c = np.maximum(values, 0.0) * len(values) / values.sum()
    if np.count_nonzero(c > 1e-12 * c.max()) < 2:
        raise ValueError("covariance of rank below 2: every token would have the same direction; give a larger rank")
    t = np.geomspace(1e-15, 1e15, _NODES) / len(values)
    spread = 1 + 2 * np.outer(t, c)
    weight = np.prod(spread**-0.5, axis=1) * t * np.log(t[1] / t[0])
    return (vectors * (len(values) * c * (weight @ (1 / spread)))) @ vectors.T


def sphere_dimension(covariance: Array, head_dim: int) -> float | None:
    """Dimension (tr C)^2/tr C^2 of the sphere that normalised tokens of covariance C fill, for `Scales.sphere`.

    None, Gaussian tokens, where that is at most head_dim + 5: too few dimensions to constrain the head_dim canonical ones.
    """
    dimension = float(np.trace(covariance) ** 2 / np.sum(covariance**2))
    return dimension if dimension > head_dim + 5 else None
