"""Anderson mixing: the acceleration of a damped fixed-point iteration by its own recent steps."""

from __future__ import annotations

import itertools

import numpy as np

from rmt.laws.law import Array


def mix(states: list[Array], residuals: list[Array], damped: Array, scale: Array) -> Array:
    """The next state of many independent systems, each (size, points); lists in order, at least two entries each.

    states x and residuals F(x) - x of the last steps; `damped` is the plain next state, x + residual/2 for the last.
    One small least-squares problem per point, in residuals multiplied by `scale`.
    """
    change = np.stack([b - a for a, b in itertools.pairwise(residuals)])  # (k, 2L, m)
    moved = np.stack([b - a for a, b in itertools.pairwise(states)])
    left = (change * scale).transpose(2, 1, 0)
    adjoint = left.conj().transpose(0, 2, 1)
    normal = adjoint @ left
    ridge = 1e-12 * np.trace(normal, axis1=1, axis2=2).real + 1e-300
    normal = normal + ridge[:, None, None] * np.eye(normal.shape[1])
    coefficients = np.linalg.solve(normal, adjoint @ (residuals[-1] * scale).T[:, :, None])[:, :, 0]
    return damped - np.einsum("mk,kim->im", coefficients, moved + 0.5 * change)
