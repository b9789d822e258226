"""Softmax regression: what theory says of each measured quantity, with band and range."""

from __future__ import annotations

import numpy as np

from rmt.theorems.prediction import Approximation, Exact, Prediction, out_of_range, relative_band
from rmt.theorems.softmax_contexts import balanced_context_noise, learned_excess
from rmt.theorems.softmax_regression import (
    SOURCE,
    curvature_range,
    excess_rate,
    linear_descent,
    regulariser_rate,
    whitened_values,
)

FINITE = "derived, see rmt.theorems.softmax_contexts"
NEAR = "next to the minima, infinitely many tokens"


def population_predictions(
    covariance: np.ndarray, target: np.ndarray, *, tau: float, preconditioned: bool, rho: float = 0.5
) -> dict[str, Prediction]:
    """The descent with infinitely many tokens, next to the minima: 10 % on steps and one-point constants, 3 % on rate.

    `covariance` (d, d) of the tokens and `target` (p, d); the condition number is that of the curvatures met off the flat
    directions, exactly the target's with the preconditioner and rho = 1/2.
    """
    law = linear_descent(covariance, target, preconditioned=preconditioned, displacement=1.0, tau=tau, rho=rho)
    found: dict[str, Prediction] = {
        "population_steps_over_law": Approximation(
            value=1.0,
            band=relative_band(1.0, 0.1),
            source=SOURCE,
            validity="start within 1 % of sqrt(s_1) of a minimum; linearised descent; condition >= 2",
        )
        if law.condition >= 2
        else out_of_range(
            f"condition {law.condition:.3g}: so few steps that one of them is more than 10 %; take 2 or more",
            source=SOURCE,
        ),
        "restricted_condition": Exact(
            value=law.condition, band=relative_band(law.condition, 1e-6), source=SOURCE, validity="at a minimum, O = I"
        ),
    }
    if not preconditioned:
        return found
    values, width = whitened_values(covariance, target), len(covariance)
    low, high = curvature_range(values, width, rho=rho)
    found["one_point_smoothness"] = Approximation(
        value=high, band=relative_band(high, 0.1), source=SOURCE, validity=NEAR
    )
    if len(values) == width:
        found["one_point_convexity"] = Approximation(
            value=low, band=relative_band(low, 0.1), source=SOURCE, validity=NEAR
        )
    else:
        found["one_point_convexity"] = out_of_range(
            f"p = {len(values)} < d = {width}: some directions are flat to second order; take p = d", source=SOURCE
        )
    rate, imbalance = excess_rate(values, width, rho=rho), regulariser_rate(values, rho=rho)
    if len(values) == width and imbalance > 1.03 * rate > 1e-3:
        found["population_rate"] = out_of_range(
            f"rho = {rho:g}: imbalance of the factors outlasts the risk, {imbalance:.3g} against {rate:.3g} a step; "
            "take rho near 1/2",
            source=SOURCE,
        )
    elif rate > 1e-3:
        found["population_rate"] = Approximation(
            value=rate, band=relative_band(rate, 0.03), source=SOURCE, validity=f"{NEAR}, step 1/(2 s_1) for rho <= 1/2"
        )
    else:
        found["population_rate"] = out_of_range(
            f"s_1/s_d = {values[0] / values[-1]:.4g}: each step squares the error; take a target of condition >= 1.1",
            source=SOURCE,
        )
    return found


def training_predictions(
    singular_values: np.ndarray, *, width: int, n: int, tau: float, noise: float = 0.0, contexts: int = 1
) -> dict[str, Prediction]:
    """Where Algorithm 1 ends on n tokens: excess risk, and error on fresh prompts of n tokens.

    The law of the learned head was measured at 1.08, 0.99 and 1.04 of its value for n = 250, 1000 and 4000 (gamma_1 = 1/4,
    standard errors 0.07, 0.1, 0.2), and at 0.82 for gamma_1 = 1/2, so it claims gamma_1 <= 1/4, n >= 1000, one context
    and 5 %. A fresh prompt adds half its context noise, known within 20 % for |Bt| = sqrt(gamma_1) <= 1/2: over 64 draws at
    n = 1000 the excess was 0.95 (0.06) of its law and the error on fresh prompts 0.91 (0.03).
    """
    gamma = float(np.max(singular_values) / tau)
    rule = _limits(gamma, n, contexts, tau)
    if rule:
        return dict.fromkeys(("excess_risk", "prompt_error"), out_of_range(rule, source=FINITE))
    law = learned_excess(singular_values, width, n, tau=tau, noise=noise)
    context = balanced_context_noise(singular_values, n, tau)
    assert law is not None and context is not None
    validity = "leading order in 1/n, converged, s_1/tau <= 1/4, (tau/s_1)^2 <= n/20, one context, n >= 1000"
    half = 0.5 * context
    return {
        "excess_risk": Approximation(value=law, band=relative_band(law, 0.05), source=FINITE, validity=validity),
        "prompt_error": Approximation(
            value=law + half, band=(0.95 * law + 0.8 * half, 1.05 * law + 1.2 * half), source=FINITE, validity=validity
        ),
    }


def _limits(gamma: float, n: int, contexts: int, tau: float) -> str:
    """Why the laws of a finite context give no number; empty where they do."""
    slack = 1 + 1e-9
    if contexts > 1:
        return f"{contexts} contexts: the 1/n^2 bias of the softmax adds to the variance; use one context"
    if gamma > 0.5 * slack:
        return f"s_1/tau = {gamma:.3g}: the context noise is infinite above 1/2; raise tau to {4 * gamma * tau:.3g}"
    if gamma > 0.25 * slack:
        return f"s_1/tau = {gamma:.3g}: heavy-tailed weights above 1/4; raise tau to {4 * gamma * tau:.3g}"
    if n < 1000:
        return f"n = {n}: the next orders exceed 5 % below n = 1000; raise n"
    if 20 / gamma**2 > n * slack:
        return (
            f"(tau/s_1)^2 = {gamma**-2:.3g} against n = {n}: the mean of the tokens adds more than 4 %; "
            f"lower tau or take n >= {20 / gamma**2:.0f}"
        )
    return ""
