"""Gradient descent on a transformer with residual connections: certificate, linear rate, drift. Derived, paper's route.

F(theta) are the outputs, Phi = |F - Y|^2/2, J the Jacobian of F, K = J J^T, E = F - Y.

Certificate. Of one layer F = H W_U, H = Z + phi(Z W_1) W_2, keep the Jacobian in W_U, which is H (x) I, and in W_2, which is
phi(Z W_1) (x) W_U^T: K is at least the sum of their Gram matrices, so lambda_min(K) >= s_min(H)^2 + s_min(phi(Z W_1))^2
s_min(W_U)^2 when n <= width, n <= hidden, outputs <= width. Algebra: no exception is possible.

Linear rate. |grad Phi|^2 = E^T K E >= 2 lambda_min(K) Phi, so steps mu <= 1/(sharpness) give Phi(t+1) <= (1 - mu
lambda_min(K(t))) Phi(t). With K(0) in place of K(t) this is a statement about training: it needs K and the sharpness to
stay near their start.

Late phase. With K frozen, E(t+1) = (I - mu K) E(t): the loss over k steps is |(I - mu K)^k E|^2/2, and in the end falls
by (1 - mu lambda_min)^2 a step.

Drift. |theta(T) - theta(0)| <= mu sum |grad Phi| <= mu sqrt(2 Lambda Phi(0)) sum (1 - mu lambda)^(t/2) <= 2 sqrt(2 Lambda
Phi(0))/lambda, Lambda the largest eigenvalue of K on the way and lambda = lambda_min(K(0)): good while the linear rate is.

Measured, medians of 16 draws (n = 8, width = d_k = 16, 64 GELU units, 2 outputs, mu = 1/(2 lambda_max(K(0)))); "worst" is
1 - (largest Phi(t+1)/Phi(t)) over mu lambda_min(K(0)), which the linear rate puts at 1 or more:

    tokens       skip  s_min(Z)  certificate  lambda_min(K)  worst    sharpness grew  steps to 1e-3
    independent  0     0.0087    0.019        0.61           8.6      2.0             160
                 0.25  0.42      0.49         2.0            4.6      1.7             160
                 0.5   0.77      1.9          5.0            3.3      1.2             106
                 1     1.5       7.3          16             2.3      1.0             80
                 2     2.8       33           56             1.8      1.0             62
    corr. 0.9    0     4e-4      5e-7         4e-4           < 0      2.9             not in 2000
                 0.25  0.13      0.034        0.074          < 0      4.2             not in 2000
                 0.5   0.26      0.14         0.30           < 0      4.3             not in 2000
                 1     0.54      0.64         1.3            4.3      2.3             7 of 16 in 2000
                 2     1.1       2.6          4.9            2.9      1.1             1100

So the linear rate holds in every draw of independent tokens from skip 0.25 on (and in 15 of 16 without), and breaks for
correlated tokens where the kernel starts tiny and the sharpness overtakes 2/mu: the loss then rises for single steps and
goes on falling. The drift bound is 20 to 300 times larger than the drift. The frozen kernel gives the late rate to 1e-6
with smooth units; with ReLU kinks leave 1 to 6 %. Without the skip independent tokens reach the minimum too, more slowly.
"""

from __future__ import annotations

import math

from rmt.theorems.prediction import Approximation, Bound, Prediction, absolute_band, out_of_range

SOURCE = "residual-convergence; derived, see rmt.theorems.residual_convergence"


def drift_bound(smallest: float, largest: float, first_loss: float) -> float | None:
    """2 sqrt(2 Lambda Phi(0))/lambda: how far weights can move while the linear rate holds; None for lambda = 0."""
    return 2 * math.sqrt(2 * largest * first_loss) / smallest if smallest > 0 else None


def convergence_predictions(
    *, tokens: str, optimizer: str, rate: float, depth: int = 1, norm: str = "none", certified: bool = True
) -> dict[str, Prediction]:
    """Bounds and the late-phase law, by quantity. `rate` is the step times lambda_max(K) at the start."""
    found: dict[str, Prediction] = {}
    if certified and depth == 1 and norm == "none":
        found["certificate_over_tangent"] = Bound(
            value=1.0 + 1e-9,
            side="upper",
            source=SOURCE,
            standing="theorem",
            validity="one layer, one sequence, n <= width and hidden, outputs <= width",
        )
    reason = None
    if optimizer != "gd":
        reason = f"optimizer {optimizer}: derived for gradient descent; choose gd"
    elif rate > 0.5:
        reason = f"rate {rate:g}: the sharpness may exceed the bound for steps above 0.5/lambda_max; lower the rate"
    elif tokens != "iid" or depth > 1 or norm != "none":
        reason = (
            f"{tokens} data, depth {depth}, norm {norm}: kernel and sharpness are known to stay for iid tokens only"
        )
    near = "one layer, independent tokens, step <= 0.5/lambda_max: kernel and sharpness stay near their start"
    if reason:
        for name in ("worst_step_over_bound", "drift_over_bound", "late_rate_over_law"):
            found[name] = out_of_range(reason, source=SOURCE)
        return found
    found["worst_step_over_bound"] = Bound(value=1.0, side="lower", source=SOURCE, validity=near)
    found["drift_over_bound"] = Bound(value=1.0, side="upper", source=SOURCE, validity=near)
    found["late_rate_over_law"] = Approximation(
        value=1.0,
        band=absolute_band(1.0, 0.05),
        source=SOURCE,
        validity="next to a minimum: the kernel no longer moves",
    )
    return found
