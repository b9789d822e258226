"""Effective variance sigma_n^2 = n E[sum_j A_j^2] - 1 of normalised iid weights other than lognormal ones.

A_j = a_j / sum_k a_k. For lognormal weights, the softmax of normal logits, see `rmt.laws.lognormal_softmax`.
"""

from __future__ import annotations

import numpy as np
import scipy.special

_LOG_T = (-45.0, 60.0, 0.1)  # first, last, step


def gamma_variance(n: int, shape: float = 1.0) -> float:
    """(n - 1)/(n shape + 1) for gamma weights, exact: A is Dirichlet, its entries Beta(shape, (n - 1) shape).

    shape = 1 are exponential weights, (n - 1)/(n + 1). Range: n >= 1, shape > 0. Tends to 1/shape.
    """
    _positive(n, shape)
    return (n - 1) / (n * shape + 1)


def gamma_entropy(n: int, shape: float = 1.0) -> float:
    """Mean entropy of a row in nats, exact: digamma(n shape + 1) - digamma(shape + 1)."""
    _positive(n, shape)
    return float(scipy.special.digamma(n * shape + 1) - scipy.special.digamma(shape + 1))


def gamma_moment(n: int, power: float, shape: float = 1.0) -> float:
    """E (n A_1)^power for gamma weights, exact: A_1 is Beta(shape, (n - 1) shape). Range: n >= 1, shape, power > 0."""
    _positive(n, shape)
    log = scipy.special.gammaln
    exponent = log(shape + power) - log(shape) - log(n * shape + power) + log(n * shape)
    return float(np.exp(power * np.log(n) + exponent))


def uniform_moment(n: int, power: float) -> float:
    """E (n A_1)^power for weights uniform on (0, 1), exact up to quadrature (1e-10); see `uniform_variance`.

    E[a^p e^(-ta)] = Gamma(p + 1) P(p + 1, t)/t^(p + 1). Range: n >= 1, power > 0.
    """
    _positive(n, 1.0)
    if n == 1:
        return 1.0
    log_t = np.arange(*_LOG_T)
    t = np.exp(log_t)
    log_laplace = np.log(-np.expm1(-t)) - log_t
    integrand = power * scipy.special.gammainc(power + 1, t) / t * np.exp((n - 1) * log_laplace)
    return float(n**power * integrand.sum() * _LOG_T[2])


def uniform_variance(n: int) -> float:
    """For weights uniform on (0, 1), exact up to quadrature (1e-10): tends to 1/3.

    E A_1^p = Int_0^inf t^(p-1)/Gamma(p) E[a^p e^(-ta)] E[e^(-ta)]^(n-1) dt with E[e^(-ta)] = (1 - e^-t)/t and
    E[a^2 e^(-ta)] = 2 P(3, t)/t^3, P the regularised incomplete gamma function; trapezoid rule in log t.
    """
    return max(uniform_moment(n, 2) - 1, 0.0)


def _positive(n: int, shape: float) -> None:
    if not (n >= 1 and shape > 0):
        raise ValueError(f"n = {n}, shape = {shape}: needs n >= 1 and shape > 0")
