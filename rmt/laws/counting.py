"""Counting singular values by a contour: how many lie above s, from the trace of the resolvent away from the axis."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from scipy.interpolate import CubicSpline

from rmt.laws.law import Array

FAR = 8.0  # a singular value beyond all: averages and their noise have norms below 3
_DESCENT = 7  # points of the quadrature down to the axis


class Resolvent(Protocol):
    """Equations for T(z) ~ (A A^T - z)^-1 whose solutions are followed from point to point."""

    def start(self, z: Array) -> Array:
        """The state of A = 0, shape (fields, points, ...)."""
        ...

    def solve(self, z: Array, state: Array, *, tolerance: float) -> Array:
        """The state at z reached from a neighbouring one."""
        ...

    def excess(self, z: Array, state: Array) -> Array:
        """tr (1 + z T) at each point, which is -sum s^2/z far away."""
        ...


def count_above(equations: Resolvent, x: Array, *, tolerance: float = 2e-4) -> Array:
    """The expected number of singular values above each x of a descending grid of positive numbers below `FAR`.

    -(1/pi) Im of the integral of tr T + n/z (which decays at infinity) along z = x^2 (1 + i)^2 from x = `FAR`, where all
    is smooth, and then straight down to the axis: nothing is ever integrated along it. Near the axis the trace changes
    fast where values are sharp, so Gauss points in the root of the height crowd there. Error at most 0.05 values next to a
    rung of width 1 % (0.3 with points even in height), below 0.003 on average and between rungs.
    """
    head = np.geomspace(FAR, x[0] * 1.1, max(8, math.ceil(5 * math.log(FAR / x[0]))))
    grid = np.concatenate([head, x])
    z = (grid * (1 + 1j)) ** 2
    state = equations.solve(z, equations.start(z), tolerance=tolerance)
    value = equations.excess(z, state)
    ray = CubicSpline(-2 * np.log(grid), value).antiderivative()(-2 * np.log(x))
    total = -(ray + value[0])  # beyond FAR the excess is proportional to 1/z
    state = state[:, head.size :]
    node, weight = np.polynomial.legendre.leggauss(_DESCENT)
    last, slope = 1.0, 0 * state
    root = (1 - node) / 2
    for level, step in zip(root**2, root * weight, strict=True):
        z = (x * (1 + 1j * level)) ** 2
        before, state = state, equations.solve(z, state + slope * (level - last), tolerance=tolerance)
        slope, last = (state - before) / (level - last), level
        total = total - equations.excess(z, state) * 2j / (1 + 1j * level) * step
    return np.asarray(-total.imag / np.pi)
