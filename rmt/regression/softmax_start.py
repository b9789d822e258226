"""Where a descent starts: from the spectrum of the data, or at random."""

from __future__ import annotations

from rmt.regression.softmax_population import minimiser
from rmt.regression.softmax_problem import Contexts, SoftmaxRegression
from rmt.regression.softmax_weights import Weights


def spectral_start(contexts: Contexts, *, tau: float = 1.0) -> Weights:
    """The minimiser of the problem that the data show: covariance X^T X / n, target by least squares.

    With U S V^T the whitened least-squares target, A = sqrt(tau) U S^(1/2) C^(-1/2) and
    B = C^(-1/2) V S^(1/2) C^(-1/2) / sqrt(tau), C the sample covariance. Errors: see `Contexts.least_squares`.
    """
    return minimiser(contexts.least_squares(), tau=tau)


def random_start(normals: Weights, *, scale: float = 0.5) -> Weights:
    """iid N(0, scale^2) entries in the coordinates of the weights themselves, from standard normals."""
    return scale * normals


def equivariant_start(problem: SoftmaxRegression, normals: Weights, *, scale: float = 0.5) -> Weights:
    """iid N(0, scale^2) entries in whitened coordinates: the same start for every covariance."""
    return problem.unwhiten(scale * normals)
