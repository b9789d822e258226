"""Deterministic equivalents of causal attention: the Dyson equations of its two resolvents, on blocks of tokens.

Rows of A are independent given the keys, with mean m_i = 1/i on j <= i (a row of the Cesaro matrix M) and covariance
K_i = c_i (I - 11^T/i) on j <= i, c_i = sigma_i^2/(i (i - 1)), sigma_i^2 the effective variance of a softmax over i entries.
With T ~ (A A^T - z)^-1 and U ~ (A^T A - z)^-1

    T = [-z (1 + delta) + M S^-1 M^T]^-1,   delta_i = tr K_i U,
    U = [-z S + M^T (1 + delta)^-1 M]^-1,   S = 1 + sum_i T_ii K_i

(derived; the rank-one parts -11^T/i say that rows sum to one exactly and must be kept). Key-query logits: the noise of
degree l, a share rho_l of it, is made of N_l features of the keys, and a cavity over features replaces, per degree,
    sum_(i >= j) T_ii c_i rho_l  by  N_l (W_l)_jj,           W_l = Psi_l (N_l - z diag(u) Psi_l)^-1, u = diag U,
    c_i rho_l sum_(j <= i) u_j   by  c_i rho_l (1^T u_i + z u_i^T W_l u_i),     u_i = u cut at j <= i,
with Psi_l(j, j') = rho_l sum_(i >= max(j, j')) T_ii c_i. N_l -> infinity gives the iid equations back.

The first tokens stand alone, later ones in blocks of geometrically growing size: what is smooth in ln i is represented
by block vectors. Inside a block stand the m - 1 quickest modes of its running sum, s_k ~ 1/(2 i sin(pi k/2m)), each alone
(what block vectors do not hold of ||C||_F^2, 1-2 %, is theirs), and c of a block keeps the energy of its rows: blocks conserve
E ||A||_F^2. With the correction `_own_slope` the rungs of M are those of C to 1e-3 (k <= 6, ratio 1.25).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rmt.laws.law import Array
from rmt.laws.mixing import mix
from rmt.laws.types import ONE_TYPE, Types

ALONE, GROWTH = 14, 1.25  # tokens that stand alone; ratio of the ends of later blocks
_MEMORY = 4  # earlier steps kept by the accelerated iteration


@dataclass(frozen=True, eq=False)
class Noise:
    """The fluctuation of the rows around their mean.

    variances: sigma_i^2 as a function of i (array in, array out). shares, ranks: rho_l and N_l of the degrees whose
    number of features matters; none for iid logits. types: factors of the variance, of mean one, that rows and columns carry
    (query and key norms); they replace 1/(1 + delta) and 1/S by averages. spread: the relative variance of |A_i|^2 - 1/i as a
    function of i, beyond that of its type and the tr K_i^2 of the equations: rows carry a factor 1 +- spread^(1/2) more.
    """

    variances: Callable[[Array], Array]
    shares: tuple[float, ...] = ()
    ranks: tuple[float, ...] = ()
    types: Types = ONE_TYPE
    spread: Callable[[Array], Array] = np.zeros_like


def block_ends(n: int, growth: float) -> Array:
    """0 = e_0 < e_1 < ... = n: block b holds the tokens e_(b-1) + 1 to e_b."""
    ends = list(range(min(ALONE, n) + 1))
    while ends[-1] < n:
        size = max(1, round(ends[-1] * (growth - 1)))
        ends.append(min(n, ends[-1] + size))
    return np.array(ends)


class CausalEquations:
    """The equations for n tokens; `mean` False leaves M out and describes A - C.

    centred: "keys" puts M (I - 11^T/n) in the place of M, "queries" (I - 11^T/n) M.
    """

    def __init__(
        self, n: int, noise: Noise, *, mean: bool = True, growth: float = GROWTH, centred: str | None = None
    ) -> None:
        ends = block_ends(n, growth)
        self.n, self.noise = n, noise
        self.size = np.diff(ends).astype(float)
        count = self.size.size
        self.c, self.c_over_i, inverse, place = _block_means(ends, noise)
        self.root = np.sqrt(self.size)
        below = np.tril(np.ones((count, count)), -1)
        mean_matrix = below * (inverse * self.root)[:, None] * self.root
        mean_matrix[np.diag_indices(count)] = place
        mean_matrix += _own_slope(self.size, inverse)
        self.mean = mean_matrix * mean
        uniform = self.root / math.sqrt(n)
        if centred == "keys":
            self.mean = self.mean - np.outer(self.mean @ uniform, uniform)
        elif centred == "queries":
            self.mean = self.mean - np.outer(uniform, uniform @ self.mean)
        left = np.maximum(inverse * self.size - np.sum(mean_matrix**2, axis=1), 0)  # of the row energies 1/i
        reach = np.sqrt(noise.spread((ends[:-1] + 1 + ends[1:]) / 2))[:, None]
        factors = np.concatenate([noise.types.values * (1 - reach), noise.types.values * (1 + reach)], axis=1)
        self.row_types = Types(factors, np.tile(noise.types.weights, 2) / 2)  # values by block
        self.modes, self.mode_count = _modes_inside(self.size, mean * left)
        # Sums over j <= i (or i >= j) count half of the own block; over i >= max(j, j') a third of it.
        self.upto = below + np.diag((self.size + 1) / (2 * self.size))
        self.both = below.T + np.diag((self.size + 1) * (2 * self.size + 1) / (6 * self.size**2))
        self.later = np.maximum.outer(np.arange(count), np.arange(count))

    def start(self, z: Array) -> Array:
        """The state of A = 0 at z (m,), by block: T_ii weighted by types, 1 + delta_i, U_ii weighted, T_ii; (4, m, blocks)."""
        free = np.broadcast_to(-1 / z[:, None], (z.size, self.size.size))
        return np.stack([free, np.ones_like(free), free, free])

    def excess(self, z: Array, state: Array) -> Array:
        """tr (1 + z T) = n + z tr T at each point: of the size of the number of values near and beyond |z|^(1/2)."""
        return (1 + z[:, None] * state[3]) @ self.size

    def solve(self, z: Array, state: Array, *, tolerance: float) -> Array:
        """The fixed point at z (m,) reached from a state by damped steps; `tolerance` is relative.

        Raises ArithmeticError if a point does not converge.
        """
        shape = (4 * self.size.size, z.size)
        final = np.empty(shape, complex)
        state = state.transpose(0, 2, 1).reshape(shape)
        live = np.arange(z.size)
        states: list[Array] = []
        residuals: list[Array] = []
        for _ in range(1000):
            old = state.reshape(4, -1, live.size).transpose(0, 2, 1)
            moved = self._step(z[live], old)
            error = np.maximum(self._moved(z[live], moved[3], old[3]), _change(moved[1], old[1]))
            new = moved.transpose(0, 2, 1).reshape(state.shape)
            keep = ~(error <= tolerance)
            final[:, live[~keep]] = new[:, ~keep]
            live = live[keep]
            if live.size == 0:
                return final.reshape(4, -1, z.size).transpose(0, 2, 1)
            state, new = state[:, keep], new[:, keep]
            residual = new - state
            states = [*(s[:, keep] for s in states[-_MEMORY:]), state] if states else [state]
            residuals = [*(r[:, keep] for r in residuals[-_MEMORY:]), residual] if residuals else [residual]
            damped = state + residual / 2
            state = mix(states, residuals, damped, 1 / np.abs(new)) if len(states) > 2 else damped
        raise ArithmeticError(
            f"the causal equations did not converge at {live.size} points, first z = {z[live[0]]:.6g}"
        )

    def _moved(self, z: Array, new: Array, old: Array) -> Array:
        """The change of tr (1 + z T) over its size: what counts large values must not drown in the n small ones."""
        return np.abs((z[:, None] * (new - old)) @ self.size) / (1 + np.abs((1 + z[:, None] * new) @ self.size))

    def _step(self, z: Array, state: Array) -> Array:
        size, diagonal = self.size, np.arange(self.size.size)
        t, shift, u, _ = state
        column, noise = z[:, None], t * size * self.c
        own = noise @ self.upto  # sum over i >= j of T_ii c_i
        s = 1 + (1 - sum(self.noise.shares)) * own
        waves = []
        if self.noise.shares:
            pairs = self._pairs(noise)
            for share, rank in zip(self.noise.shares, self.noise.ranks, strict=True):
                inner = -share * column[:, :, None] * pairs * (u * size)[:, None, :]
                inner[:, diagonal, diagonal] += rank
                wave = np.linalg.solve(inner, share * pairs)
                exact_own = share * (own - pairs[:, diagonal, diagonal])
                s = s + rank * wave[:, diagonal, diagonal] + exact_own
                waves.append((share, wave))
        column_means, row_means = _over_types(self.noise.types, s - 1), _over_types(self.row_types, shift - 1)
        full = -self._pairs(t * size * self.c_over_i) * np.outer(self.root, self.root)
        full[:, diagonal, diagonal] += 1 / column_means[0]
        inverse = np.linalg.inv(-column[:, :, None] * full + self.mean.T @ (self.mean * row_means[0][:, :, None]))
        carried = np.einsum("qij,ij->qi", self.mean @ inverse, self.mean)
        held = inverse[:, diagonal, diagonal] + column_means[0] / column
        for square, number in zip(self.modes, self.mode_count, strict=True):
            alone = 1 / (square * row_means[0] - column / column_means[0])
            carried = carried + number * square * alone
            held = held + number * (alone + column_means[0] / column)
        new_t, weighted_t = ((carried * square / size - one) / column for one, square in (row_means[:2], row_means[2:]))
        beyond = held / column_means[0] ** 2
        new_u, weighted_u = (
            beyond * square / size - one / column for one, square in (column_means[:2], column_means[2:])
        )
        vectors = self.upto * self.root
        rows = np.einsum("qij,ij->qi", vectors @ inverse, vectors)
        new_delta = self.c * ((weighted_u * size) @ self.upto.T) - self.c_over_i * rows
        for share, wave in waves:
            cut = self.upto * (weighted_u * size)[:, None, :]
            new_delta = new_delta + self.c * share * column * np.einsum("qij,qij->qi", cut @ wave, cut)
        # A is square, so tr T = tr U; only their product is well determined near zero, and this sets the ratio right.
        ratio = np.sqrt((new_u @ size) / (new_t @ size))[:, None]
        return np.stack([weighted_t * ratio, 1 + new_delta / ratio, weighted_u / ratio, new_t * ratio])

    def _pairs(self, values: Array) -> Array:
        """The matrix sum_(i >= max(j, j')) values_i over blocks j, j'; values (points, blocks) are sums over blocks."""
        pairs = (values @ self.upto)[:, self.later]
        diagonal = np.arange(self.size.size)
        pairs[:, diagonal, diagonal] = values @ self.both.T
        return pairs


def _over_types(types: Types, delta: Array) -> tuple[Array, Array, Array, Array]:
    """Averages over types r of 1/d, 1/d^2, r/d and r/d^2, d = 1 + r delta."""
    r, weights = types.values, types.weights
    inverse = 1 / (1 + r * delta[..., None])
    return inverse @ weights, inverse**2 @ weights, (r * inverse) @ weights, (r * inverse**2) @ weights


def _block_means(ends: Array, noise: Noise) -> tuple[Array, Array, Array, Array]:
    """Means over each block of c_i, c_i/i and 1/i, and the block average of the mean matrix inside the block."""
    rows = []
    for low, high in itertools.pairwise(ends):
        i = np.arange(low + 1, high + 1, dtype=float)
        c = noise.variances(i) / (i * np.maximum(i - 1, 1)) * (i > 1)
        seen = low + (i.size + 1) / 2  # tokens that a row of the block sees, on average
        rows.append(((c * i).mean() / seen, c.mean() / seen, (1 / i).mean(), ((i - low) / i).mean()))
    return tuple(np.array(rows).T)


def _own_slope(size: Array, inverse: Array) -> Array:
    """What a sum over j <= i misses where the summed function changes along the block of i (Gregory's correction).

    A slope f' lowers the average over i of the sum of f over the block's j <= i by (m^2 - 1) f'/12; f' from the blocks before
    and after. Without it the k-th rung comes out low by w^2 g^2/12, g the relative size of blocks and s_k ~ 1/w.
    """
    correction = np.zeros((size.size, size.size))
    for b in np.flatnonzero(size > 1).tolist():
        before, after = b - 1, min(b + 1, size.size - 1)
        distance = (size[before] + 2 * size[b] * (after > b) + size[after]) / 2
        weight = (size[b] ** 2 - 1) * inverse[b] / (12 * distance)
        correction[b, before] += weight * math.sqrt(size[b] / size[before])
        correction[b, after] -= weight * math.sqrt(size[b] / size[after])
    return correction


def _modes_inside(size: Array, energy: Array) -> tuple[Array, Array]:
    """Squared values of M inside each block, s^2 ~ 1/sin^2(pi k/2m), k = 1 ... m - 1, with this sum; grouped by octaves of k.

    A running sum of m tokens that the block vectors do not hold; both arrays (octaves, blocks), values and their numbers.
    """
    octaves = max(1, math.ceil(math.log2(size.max())))
    squares, numbers = np.zeros((2, octaves, size.size))
    for b in np.flatnonzero(size > 1).tolist():
        k = np.arange(1, size[b])
        square = np.sin(math.pi * k / (2 * size[b])) ** -2.0
        octave = np.floor(np.log2(k)).astype(int)
        numbers[:, b] = np.bincount(octave, minlength=octaves)
        sums = np.bincount(octave, square, minlength=octaves)
        squares[:, b] = energy[b] / square.sum() * sums / np.maximum(numbers[:, b], 1)
    return squares, numbers


def _change(new: Array, old: Array) -> Array:
    return np.abs(new - old).max(axis=1) / np.abs(new).max(axis=1)
