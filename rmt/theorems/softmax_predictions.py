"""Softmax regression: what theory says of each measured quantity, with band and range."""

from __future__ import annotations

import numpy as np

from rmt.theorems.prediction import Approximation, Prediction, out_of_range, relative_band
from rmt.theorems.softmax_contexts import learned_excess
from rmt.theorems.softmax_regression import SOURCE, curvature_range, excess_rate

FINITE = "derived, see rmt.theorems.softmax_contexts"


def softmax_regression_predictions(
    singular_values: np.ndarray,
    *,
    width: int,
    n: int,
    tau: float,
    noise: float = 0.0,
    optimizer: str = "preconditioned",
    start: str = "spectral",
    regularized: bool = True,
    contexts: int = 1,
) -> dict[str, Prediction]:
    """Predictions by quantity; none for what no theory covers, such as where a rival ends after a given time.

    Bands: 10 % for steps and one-point constants, 3 % for the rate, 5 % for means over samples. The law of the learned
    head was measured at 1.08, 0.99 and 1.04 of its value for n = 250, 1000 and 4000 (gamma_1 = 1/4, standard errors 0.07,
    0.1, 0.2), and at 0.82 for gamma_1 = 1/2, so it claims gamma_1 <= 1/4, n >= 1000 and one context.
    """
    found: dict[str, Prediction] = {}
    if optimizer in ("preconditioned", "gd"):
        found["population_steps_over_law"] = Approximation(
            value=1.0,
            band=relative_band(1.0, 0.1),
            source=SOURCE,
            validity="start within 1 % of sqrt(s_1) of a minimum; linearised descent",
        )
    if optimizer == "preconditioned":
        low, high = curvature_range(singular_values, width)
        rate = excess_rate(singular_values, width)
        near = "next to the minima, infinitely many tokens"
        found["population_rate"] = Approximation(
            value=rate, band=relative_band(rate, 0.03), source=SOURCE, validity=f"{near}, step 1/(2 s_1)"
        )
        found["one_point_smoothness"] = Approximation(
            value=high, band=relative_band(high, 0.1), source=SOURCE, validity=near
        )
        if len(singular_values) == width:
            found["one_point_convexity"] = Approximation(
                value=low, band=relative_band(low, 0.1), source=SOURCE, validity=near
            )
        else:
            found["one_point_convexity"] = out_of_range(
                f"p = {len(singular_values)} < d = {width}: some directions are flat to second order; take p = d",
                source=SOURCE,
            )
    if optimizer in ("preconditioned", "renormalised") and start == "spectral" and regularized:
        found["excess_risk"] = _learned(singular_values, width, n, tau, noise, contexts)
    return found


def _learned(singular_values: np.ndarray, width: int, n: int, tau: float, noise: float, contexts: int) -> Prediction:
    gamma = float(np.max(singular_values) / tau)
    if contexts > 1:
        return out_of_range(
            f"{contexts} contexts: the 1/n^2 bias of the softmax adds to the variance; use one context", source=FINITE
        )
    if gamma > 0.25 * (1 + 1e-9):
        return out_of_range(
            f"s_1/tau = {gamma:.3g}: heavy-tailed weights above 1/4; raise tau to {4 * np.max(singular_values):.3g}",
            source=FINITE,
        )
    if n < 1000:
        return out_of_range(f"n = {n}: the next orders exceed 5 % below n = 1000; raise n", source=FINITE)
    if 20 / gamma**2 > n * (1 + 1e-9):
        return out_of_range(
            f"(tau/s_1)^2 = {gamma**-2:.3g} against n = {n}: the mean of the tokens adds more than 4 %; "
            f"lower tau or take n >= {20 / gamma**2:.0f}",
            source=FINITE,
        )
    law = learned_excess(singular_values, width, n, tau=tau, noise=noise)
    assert law is not None
    return Approximation(
        value=law,
        band=relative_band(law, 0.05),
        source=FINITE,
        validity="leading order in 1/n, converged, s_1/tau <= 1/4, (tau/s_1)^2 <= n/20, one context, n >= 1000",
    )
