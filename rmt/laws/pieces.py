"""Square random matrices that are sums of low-rank pieces with row and column types: their equations and solution.

A piece l is (row profile)^(1/2) U V^T (column profile)^(1/2) with independent Gaussian features U, V of rank phi_l n
(phi = infinity: a matrix of independent entries). With G(r), H(c) the diagonal resolvents of row type r and column
type c, averages E_r and E_c over the types, z a point of the upper half plane:

    A_l = E_r[f_l G],   B_l = E_c[g_l H],   D_l = 1/(1 - A_l B_l/phi_l)
    G(r) = 1/(z - sum_l f_l(r) B_l D_l),    H(c) = 1/(z - sum_l g_l(c) A_l D_l)

and E_r G(z) = E z/(z^2 - s^2), the Cauchy transform of the symmetrised singular values s. One type and one piece give
the free Marchenko-Pastur sums of linear models of attention; no proof is known for several pieces with types.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rmt.laws.law import Array
from rmt.laws.mixing import mix

_MEMORY = 6  # earlier steps kept by the accelerated iteration


@dataclass(frozen=True, eq=False)
class Pieces:
    """What the equations need.

    row_profiles f (L, R) and column_profiles g (L, C), with E_c g = 1, so that E_r f is the variance of a piece;
    ranks phi (L,), in units of n, infinity allowed; row_weights (R,) and column_weights (C,), each of sum one.
    """

    row_profiles: Array
    column_profiles: Array
    ranks: Array
    row_weights: Array
    column_weights: Array

    @property
    def variances(self) -> Array:
        """E_r f_l, what each piece adds to E s^2; shape (L,)."""
        return self.row_profiles @ self.row_weights

    @property
    def second_moment(self) -> float:
        """E s^2."""
        return float(self.variances.sum())

    @property
    def fourth_moment(self) -> float:
        """E s^4 = E_r[(sum f)^2] + E_c[(sum v g)^2] + sum v^2/phi, v the variances."""
        v = self.variances
        rows = self.row_profiles.sum(axis=0) ** 2 @ self.row_weights
        columns = (v @ self.column_profiles) ** 2 @ self.column_weights
        return float(rows + columns + np.sum(v**2 / self.ranks))

    @property
    def zero_mass(self) -> float:
        """The mass of s = 0 forced by low rank."""
        active = self.variances > 0
        return float(max(0.0, 1.0 - self.ranks[active].sum()))


def edge(pieces: Pieces) -> float:
    """The largest point of the spectrum of s, to about 1e-9 relative.

    Above the edge G is real, and z is a convex function of t = E G there with its minimum at the edge. The equations
    are solved at given t, z being the root of E_r 1/(z - S(r)) = t: unlike at given z, nothing slows down at the edge.
    """
    largest = 1.0 / np.sqrt(pieces.second_moment)
    low, high = 1e-5 * largest, 1.001 * largest
    t = np.geomspace(low, high, 64)
    for _ in range(5):
        z = _z_of_mean(pieces, t)
        at = int(np.argmin(z))
        t = np.linspace(t[max(at - 1, 0)], t[min(at + 1, t.size - 1)], 25)
    return float(z.min())


def _z_of_mean(pieces: Pieces, t: Array) -> Array:
    """z > 0 with E_r G(z) = t for each t, or infinity beyond the reach of the branch that starts at z = infinity."""
    f, g = pieces.row_profiles, pieces.column_profiles
    row, column, phi = pieces.row_weights, pieces.column_weights, pieces.ranks[:, None]
    weighted_f, weighted_g = f * row, g * column
    a = weighted_f.sum(axis=1)[:, None] * t
    b = weighted_g.sum(axis=1)[:, None] * t
    out = np.full(t.size, np.inf)
    z = np.full(t.size, np.inf)
    live = np.arange(t.size)
    for _ in range(2000):
        ratio = a * b / phi
        good = np.all(ratio < 1, axis=0)
        a, b, ratio, live, t, z = a[:, good], b[:, good], ratio[:, good], live[good], t[good], z[good]
        if live.size == 0:
            break
        d = 1 / (1 - ratio)
        row_shift, column_shift = f.T @ (b * d), g.T @ (a * d)
        new = _shifted_inverse(row_shift, row, t)
        bottom = column_shift.max(axis=0)
        room = new > bottom  # H must stay positive
        resolvent = 1 / (new - row_shift)
        other = 1 / np.where(room, new - column_shift, np.inf)
        done = np.abs(new - z) < 1e-12 * new
        out[live[done & room]] = new[done & room]
        keep = ~done & room
        mean = column @ other
        a = ((a + weighted_f @ resolvent) / 2)[:, keep]
        b = ((b + weighted_g @ other * (t / np.where(room, mean, 1.0))) / 2)[:, keep]
        live, t, z = live[keep], t[keep], new[keep]
        if live.size == 0:
            break
    return out


def _shifted_inverse(shift: Array, weights: Array, t: Array) -> Array:
    """The root z > max shift of sum_r w_r/(z - shift_r) = t, column by column, by Newton steps on 1/(sum)."""
    z = weights @ shift + 1 / t
    z = np.maximum(z, shift.max(axis=0) + weights.min() / t)
    for _ in range(60):
        inverse = 1 / (z - shift)
        total = weights @ inverse
        step = (1 / total - 1 / t) * total**2 / (weights @ inverse**2)
        floor = shift.max(axis=0)
        z = np.where(z - step > floor, z - step, (z + floor) / 2)
        if np.all(np.abs(step) <= 1e-14 * z):
            break
    return z


def cauchy(pieces: Pieces, z: Array, *, tolerance: float = 1e-6) -> Array:
    """E_r G at complex z (m,), Im z > 0: the symmetrised Cauchy transform E z/(z^2 - s^2).

    Continuation from large imaginary parts down to those of z, all points at once. Raises ArithmeticError if a point
    does not converge.
    """
    z = np.asarray(z, complex)
    path = _Iteration(pieces)
    state = path.start(z.real + 1j * np.maximum(np.abs(z), z.imag))
    heights = np.abs(z) * np.array([1.0, 0.3, 0.1, 0.03, 0.008, 0.002, 2e-4, 2e-5])[:, None]
    for height in heights:
        pending = height > z.imag
        if not pending.any():
            break
        at = z.real + 1j * np.maximum(height, z.imag)
        state[:, pending] = path.solve(state[:, pending], at[pending], tolerance=1e-4)[0]
    return path.solve(state, z, tolerance=tolerance)[1]


def cauchy_descending(pieces: Pieces, x: Array, scale: Array, levels: Array, *, tolerance: float = 1e-6) -> Array:
    """E_r G at x + i level * scale for the last of the descending levels, each solved from the one before; (m,)."""
    path = _Iteration(pieces)
    state = path.start(x + 1j * scale)
    mean = np.zeros(x.size, complex)
    for level in levels:
        last = level == levels[-1]
        state, mean = path.solve(state, x + 1j * level * scale, tolerance=tolerance if last else 1e-4)
    return mean


class _Iteration:
    """The map (A, B) -> (A, B) of the equations at many z at once, and its accelerated fixed point."""

    def __init__(self, pieces: Pieces) -> None:
        self.f, self.g = pieces.row_profiles, pieces.column_profiles
        self.phi = pieces.ranks[:, None]
        self.row, self.column = pieces.row_weights, pieces.column_weights
        self.weighted_f, self.weighted_g = self.f * self.row, self.g * self.column

    def start(self, z: Array) -> Array:
        """The state of G = H = 1/z."""
        return np.concatenate([self.weighted_f.sum(axis=1)[:, None] / z, self.weighted_g.sum(axis=1)[:, None] / z])

    def map(self, state: Array, z: Array) -> tuple[Array, Array]:
        """The next state, balanced, and the mean of G.

        Balance: only the product of G and H is well determined near the axis, (tG, H/t) relaxing at the rate Im z.
        A square matrix has E G = E H, so t = sqrt(E H/E G) sets that mode right at once.
        """
        count = len(self.phi)
        a, b = state[:count], state[count:]
        d = 1 / (1 - a * b / self.phi)
        g = 1 / (z - _real_times(self.f.T, b * d))
        h = 1 / (z - _real_times(self.g.T, a * d))
        g = np.where(g.imag > 0, g.conj(), g)
        h = np.where(h.imag > 0, h.conj(), h)
        mean_g, mean_h = _real_times(self.row[None], g)[0], _real_times(self.column[None], h)[0]
        t = np.sqrt(mean_h / mean_g)
        t = np.where(t.real < 0, -t, t)
        mean = mean_g * t
        new = np.concatenate([_real_times(self.weighted_f, g) * t, _real_times(self.weighted_g, h) / t])
        return new, mean

    def solve(self, state: Array, z: Array, *, tolerance: float, limit: int = 3000) -> tuple[Array, Array]:
        """State and mean of G at z: damped steps, accelerated by Anderson mixing; converged points leave the batch."""
        final, mean = state.copy(), np.zeros(z.size, complex)
        live = np.arange(z.size)
        states: list[Array] = []
        residuals: list[Array] = []
        for _ in range(limit):
            new, mean_now = self.map(state, z[live])
            residual = new - state
            error = np.max(np.abs(residual), axis=0) / np.max(np.abs(new), axis=0)
            done = error < tolerance
            if done.any():
                final[:, live[done]], mean[live[done]] = new[:, done], mean_now[done]
                keep = ~done
                live = live[keep]
                if live.size == 0:
                    return final, mean
                state, new, residual = state[:, keep], new[:, keep], residual[:, keep]
                states, residuals = [s[:, keep] for s in states], [r[:, keep] for r in residuals]
            states, residuals = [*states[-_MEMORY:], state], [*residuals[-_MEMORY:], residual]
            damped = state + 0.5 * residual
            if len(states) > 2:
                # a piece without variance has A = 0, here and in all differences
                mixed = mix(states, residuals, damped, 1 / np.maximum(np.abs(new), 1e-300))
                wild = np.any(mixed.imag > 0, axis=0) | (
                    np.max(np.abs(mixed - state), axis=0) > 2 * np.max(np.abs(new), axis=0)
                )
                state = np.where(wild, damped, mixed)
            else:
                state = damped
        raise ArithmeticError(f"the law did not converge at {live.size} points, first at z = {z[live[0]]:.6g}")


def _real_times(matrix: Array, columns: Array) -> Array:
    """matrix (real) @ columns (complex) without promoting the matrix."""
    columns = np.ascontiguousarray(columns)
    return (matrix @ columns.view(float)).view(complex)
