"""The fixed points of free probability: analytic maps of the upper half plane into itself, at many points at once.

The resolvent of a free sum or product at z is the resolvent of one factor at another point w(z), which is the one
fixed point of a map built from the two factors (Voiculescu 1993, Biane 1998, Belinschi and Bercovici 2007). Iterating
the map converges from everywhere, slowly near an edge; Newton's method is quick near the answer. Here a Newton step is
taken where it stays in the half plane and comes closer, and a step of the map elsewhere. A fixed point in the open half
plane is the right one, however it was found, so the residual is a proof.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from rmt.laws.law import Array

Step = Callable[[Array, Array], Array]
_TINY = 1e-11  # an imaginary part this small, relatively, is taken for 0 when that brings the residual down
_SLANT = 0.1  # the same for a Newton step from the axis, relative to its length, as differences bend it near an edge


def fixed_point(
    step: Step, start: Array, *, scale: ArrayLike = 0.0, tolerance: float = 2e-14, limit: int = 300, real: bool = True
) -> tuple[Array, Array]:
    """w with w = step(w, place) in the closed upper half plane, and the relative residual; shapes (k, m) and (m,).

    step: takes states (k, p) at the points `place` (p,), indices into 0 ... m - 1, and returns states of that shape;
    k coupled functions, one or two. The residual is |step(w) - w| over |w|, or over `scale` (m,) where that is larger.
    Points leave the batch once it is at most `tolerance`; what is left after `limit` rounds is returned with its
    residual, for the caller to judge.
    """
    final, error = _iterate(step, start, np.broadcast_to(scale, start.shape[1:]), tolerance, limit, real)
    stuck = np.flatnonzero(error > tolerance)
    if real and stuck.size:
        # outside a support but next to its edge the way through the half plane is long: try along the axis
        along, rest = _iterate(
            lambda w, place: step(w, stuck[place]),
            final[:, stuck].real,
            np.broadcast_to(scale, error.shape)[stuck],
            tolerance,
            limit,
            real,
        )
        better = rest < error[stuck]
        final[:, stuck[better]], error[stuck[better]] = along[:, better], rest[better]
    return final, error


def _iterate(step: Step, start: Array, scale: Array, tolerance: float, limit: int, real: bool) -> tuple[Array, Array]:
    """`fixed_point` from one start."""
    final, error = start.astype(complex), np.full(start.shape[1], np.inf)
    live = np.arange(start.shape[1])
    within = np.zeros(live.size, dtype=bool)
    w = final
    with np.errstate(all="ignore"):
        image = step(w, live)
        for _ in range(limit):
            residual = _size(image - w, w, scale[live])
            better = residual < error[live]
            final[:, live[better]], error[live[better]] = w[:, better], residual[better]
            # once within the tolerance, one more round: Newton's method then reaches the last digits
            keep = ~(within[live] & (residual <= tolerance))
            within[live] = residual <= tolerance
            live, w, image = live[keep], w[:, keep], image[:, keep]
            if live.size == 0:
                break
            change, multiplier = _newton(step, w, image, live)
            new = w + change
            attracting = real & (multiplier < 1)  # a repelling fixed point on the axis is not the one looked for
            on_axis = np.all(w.imag == 0, axis=0)  # then the derivative is real but for the error of its differences
            bent = np.where(on_axis, _SLANT * np.abs(change), _TINY * np.abs(new))
            almost_real = attracting & np.all(np.abs(new.imag) < bent, axis=0)
            # towards the axis at most nine tenths of the way; from the axis downwards not at all
            part = np.min(np.where(new.imag < 0.1 * w.imag, -0.9 * w.imag / change.imag, 1.0), axis=0)
            new = np.where(almost_real, new.real + 0j, np.where(part > 0, w + part * change, image))
            # on the axis beyond the turning point Newton's method would go to the repelling one of two fixed points
            repelled = real & on_axis & (multiplier >= 1)
            new = np.where(repelled, w.real + np.abs(change) * np.sign((image - w).real), new)
            new = np.where(np.all(np.isfinite(new), axis=0), new, image)
            new_image = step(new, live)
            before, after = _distance(w, image), _distance(new, new_image)
            falls = 2 * _size(new_image - new, new, 0.0) < _size(image - w, w, 0.0)
            # towards an attracting point of the axis the distance stays or grows, though the residual falls
            closer = (after <= before) | repelled | (attracting & falls & ((multiplier < 0.9) | (after < 2 * before)))
            if not closer.all():
                far = ~closer
                new[:, far] = image[:, far]
                new_image[:, far] = step(new[:, far], live[far])
            w, image = new, new_image
    return final, error


def converged(residual: Array, z: Array) -> None:
    """Refuse an answer whose residual is more than rounding at an edge, where two fixed points meet."""
    residual = np.where(np.isfinite(z), residual, 0.0)  # nonsense in, nonsense out
    if not residual.max(initial=0.0) < 1e-6:
        worst = int(np.argmax(residual))
        raise ArithmeticError(f"no fixed point at z = {z[worst]:.6g}: residual {residual[worst]:.1e}")


def _newton(step: Step, w: Array, image: Array, live: Array) -> tuple[Array, Array]:
    """-(step' - 1)^-1 (step - w), the derivative by differences taken upwards, into the half plane; and |step'|."""
    k = w.shape[0]
    jacobian = np.empty((w.shape[1], k, k), dtype=complex)
    for column in range(k):
        # small against the distance to a factor, large against rounding near a double or triple fixed point
        shift = 1j * np.maximum(1e-3 * w[column].imag, 1e-7 * np.abs(w[column]))
        moved = w.copy()
        moved[column] += shift
        jacobian[:, :, column] = ((step(moved, live) - image) / shift).T
    matrix = np.eye(k) - jacobian
    gap = image - w
    if k == 1:
        return gap / matrix[:, 0, 0], np.abs(jacobian[:, 0, 0])
    determinant = matrix[:, 0, 0] * matrix[:, 1, 1] - matrix[:, 0, 1] * matrix[:, 1, 0]
    first = (matrix[:, 1, 1] * gap[0] - matrix[:, 0, 1] * gap[1]) / determinant
    second = (matrix[:, 0, 0] * gap[1] - matrix[:, 1, 0] * gap[0]) / determinant
    return np.stack([first, second]), np.linalg.norm(np.where(np.isfinite(jacobian), jacobian, np.inf), axis=(1, 2))


def _size(gap: Array, w: Array, scale: ArrayLike) -> Array:
    residual = np.max(np.abs(gap) / np.maximum(np.abs(w), scale), axis=0)
    return np.where(np.isfinite(residual), residual, np.inf)


def _distance(w: Array, image: Array) -> Array:
    """A monotone function of the hyperbolic distance, which no step of the map increases; the plain one on the axis."""
    height = np.maximum(w.imag * image.imag, 1e-30 * np.abs(w) ** 2)
    distance = np.max(np.abs(image - w) ** 2 / height, axis=0)
    return np.where(np.isfinite(distance), distance, np.inf)
