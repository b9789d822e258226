"""Key-query attention whose queries and keys are made of the same tokens: Gaussian, layer-normalised or anisotropic."""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rmt.laws.delegated import DelegatedLaw
from rmt.laws.harmonics import harmonics, log_projection, monomials
from rmt.laws.heavy_entries import excess_kurtosis, with_heavy_entries
from rmt.laws.law import Array
from rmt.laws.lognormal_softmax import effective_variance
from rmt.laws.piece_law import PieceLaw
from rmt.laws.pieces import Pieces
from rmt.laws.token_scales import Scales
from rmt.laws.types import Types, chi_square_types

DEGREES = 4
_FEATURES = 3000  # of a degree, where it has more
_BULK_BINS, _TOP_BINS = 12, 12


@dataclass(frozen=True, eq=False)
class SharedTokensLaw(DelegatedLaw):
    """Law of the singular values of sqrt(n) (I - 11^T/n) A, A = softmax(beta Q K^T/sqrt(d_k)), Q = X W_Q, K = X W_K.

    n tokens; beta multiplies logits whose variance at beta = 1 is `scales.mean`; scales from `rmt.laws.token_scales`.
    rows, columns: the types r_i = q_i^T S_K q_i/(d_k mean), c_j = k_j^T S_Q k_j/(d_k mean) of given tokens, over their means;
    by default chi^2_(d_e)/d_e.

    Derivation (heuristic, no proof): as `rmt.laws.keyquery.KeyQueryLaw`, with three changes. Features of degree l are the
    products of l of the d_k directions, of squared scale prod tau_a^2, grouped into bins; degree l weighs (b r)^l/l! for
    Gaussian tokens and N_l b_l(x)^2/b_0(x)^2, x^2 = b r D, on a sphere (lighter tails), b = beta^2 mean; and a row of large r
    leans on the directions of large scale, by an exponential tilt. The tilt counts a direction's own square twice and puts the
    largest values 3-10 % too high, so `top_value` leaves it out.

    Range: d_e >= 12, head_dim >= 16, beta^2 mean <= 2.3, n >= 300 (`in_range`, `validity`). Kolmogorov distance, n = 1500, given
    weights, published mean of 2-3 draws: layer norm, d/d_k = 256/64, beta = 1: .006, .5: .005; 128/32: .008, .008; 512/128: .008;
    768/64, .5: .006; 64/16: .020, .014; 64/64, .5: .016; Gaussian, 256/64: .008; spectrum k^-1/2: .007; k^-1, beta = .7: .007;
    layer norm of k^-1/2: .005; of k^-1, .7, d = 256: .015, 768: .010, with the covariance of the normalised tokens
    (`rmt.laws.normalised_tokens`; with that before the norm .031), E s^2 still 6-11 % high. n = 3000: .004. Leading values within
    6 %, mostly low.
    Out of range: spectrum k^-1, beta = 1, d_e ~ 10: .02-.036, leading value 6-12 % low. Weights at their typical scales instead
    of drawn ones: .000-.008 more, at d_k = 16 up to .06. Law without the tilt: .007-.14; independent tokens: .03-.23.
    """

    n: int
    beta: float
    scales: Scales
    rows: Types | None = None
    columns: Types | None = None

    def __post_init__(self) -> None:
        if not (self.n >= 2 and 0 < self.beta <= 6):
            raise ValueError(f"n = {self.n}, beta = {self.beta}: needs n >= 2 and 0 < beta <= 6")

    @property
    def validity(self) -> str:
        """Why the law should not be trusted here, or an empty string."""
        head, effective = self.scales.squares.size, self.scales.effective_dimension
        deviation = self.beta * math.sqrt(self.scales.mean)
        limits = [
            (head < 16, f"head_dim = {head} < 16: few features per degree"),
            (effective < 12, f"effective dimension {effective:.3g} < 12: few directions carry the logits"),
            (deviation > 1.5, f"logit deviation {deviation:.3g} > 1.5: single large entries dominate"),
            (self.n < 300, f"n = {self.n} < 300: corrections of order 1/n are not small"),
        ]
        return "; ".join(text for broken, text in limits if broken)

    @functools.cached_property
    def law(self) -> PieceLaw:
        """The numerical law behind the methods."""
        return PieceLaw(self._pieces(tilted=True), self.n)

    @functools.cached_property
    def top(self) -> PieceLaw:
        """The law without the tilt, closer for the largest values."""
        return PieceLaw(self._pieces(tilted=False), self.n)

    def _pieces(self, *, tilted: bool) -> Pieces:
        default = chi_square_types(self.scales.effective_dimension, self.n)
        return shared_pieces(
            self.n, self.beta, self.scales, self.rows or default, self.columns or default, tilted=tilted
        )

    def top_value(self, k: ArrayLike) -> Array:
        """The typical k-th largest singular value; over sqrt(n) it is that of A, counted from its second."""
        return self.top.top_value(k)


def degree_weights(variance: Array, sphere: float | None, degrees: int = DEGREES) -> tuple[Array, Array]:
    """Variances of degrees 1 to `degrees` of exp(logit), over its squared mean, and of all degrees together.

    For logits of the given variances (m,), Gaussian or linear in a uniform point of a sphere; shapes (degrees, m) and (m,).
    """
    degree = range(1, degrees + 1)
    if sphere is None:
        return np.array([variance**d / math.factorial(d) for d in degree]), np.expm1(variance)
    x = np.sqrt(variance * sphere)
    base = 2 * log_projection(0, x, sphere)
    weights = [harmonics(d, sphere) * np.exp(2 * log_projection(d, x, sphere) - base) for d in degree]
    return np.array(weights), np.expm1(log_projection(0, 2 * x, sphere) - base)


def shared_pieces(
    n: int, beta: float, scales: Scales, rows: Types, columns: Types, *, tilted: bool, heavy: bool | None = None
) -> Pieces:
    """The pieces of `SharedTokensLaw`: one per degree and bin of features, and the rest, which is noise.

    heavy: the correction for heavy entries, by default on for head_dim > 16.
    """
    b, head = beta**2 * scales.mean, scales.squares.size
    weights, total = degree_weights(b * rows.values, scales.sphere)
    row_energy = conditional_energies(scales, rows.values) if tilted else np.ones((head, rows.values.size))
    column_energy = (
        conditional_energies(scales, columns.values)
        if tilted
        else np.broadcast_to(columns.values, (head, columns.values.size))
    )
    f, g, ranks = [], [], []
    for degree in range(1, DEGREES + 1):
        features = _features(head, degree)
        strength = scales.squares[features].prod(axis=1)
        along_rows = strength[:, None] * row_energy[features].prod(axis=1)
        along_columns = strength[:, None] * column_energy[features].prod(axis=1) * np.exp(b * (columns.values - 1))
        mean = along_rows.mean(axis=0)
        count = monomials(degree, head)
        for part in _bins(strength):
            omega = part.size / strength.size
            f.append(weights[degree - 1] * omega * along_rows[part].mean(axis=0) / mean)
            g.append(along_columns[part].mean(axis=0))
            ranks.append(omega * count / n)
    f.append(np.maximum(total - weights.sum(axis=0), 0.0))
    g.append(columns.values ** (DEGREES + 1) * np.exp(b * (columns.values - 1)))
    ranks.append(np.inf)
    g = [profile / columns.mean(profile) for profile in g]
    normaliser = effective_variance(b * rows.values, n) / np.expm1(b * rows.values)
    pieces = Pieces(np.array(f) * normaliser, np.array(g), np.array(ranks), rows.weights, columns.weights)
    if not (head > 16 if heavy is None else heavy):
        return pieces
    first = len(_bins(scales.squares))
    kappa = [
        excess_kurtosis(b * types.values, n, sphere_tail(b * types.values, scales.sphere)) for types in (rows, columns)
    ]
    return with_heavy_entries(pieces, *kappa, n=n, linear=first)


def sphere_tail(variance: Array, sphere: float | None) -> Array | float:
    """Fourth moment of exp(logit) on a sphere over that for Gaussian tokens, which is where heavy entries come from."""
    if sphere is None:
        return 1.0
    x = np.sqrt(variance * sphere)
    return np.asarray(np.exp(log_projection(0, 4 * x, sphere) - 4 * log_projection(0, x, sphere) - 6 * variance))


def conditional_energies(scales: Scales, types: Array) -> Array:
    """E z_a^2 of every direction a given the type r = sum_a tau_a^2 z_a^2/d_k, shape (directions, types).

    By exponential tilting, lambda/(1 - 2 theta tau_a^2) with theta such that the type comes out; lambda = 1 for Gaussian
    tokens, on a sphere of dimension D it keeps the sum over all D coordinates.
    """
    squares = scales.squares
    end = 1 / (2 * float(squares.max()))
    steps = np.geomspace(1e-5, 1e5, 400)
    theta = end * np.concatenate([-steps[::-1], [0.0], 1 - 1 / (1 + steps)])
    gain = 1 / (1 - 2 * np.outer(squares, theta))
    if scales.sphere is not None:
        gain = gain * scales.sphere / (scales.sphere - squares.size + gain.sum(axis=0))
    mean = squares @ gain / squares.size
    return np.array([np.interp(types, mean, row) for row in gain])


def _features(head: int, degree: int) -> Array:
    """Products of `degree` of the directions, with repetition, as index rows: all, or an even spread of 3000."""
    count = math.comb(head + degree - 1, degree)
    if count <= _FEATURES:
        return np.array(list(itertools.combinations_with_replacement(range(head), degree)))
    golden = (math.sqrt(5) - 1) / 2
    left = np.floor(np.mod(np.arange(1, _FEATURES + 1) * golden, 1.0) * count).astype(np.int64)
    columns = []
    for size in range(degree, 0, -1):  # the combinatorial number system
        table = np.array([math.comb(top, size) for top in range(head + degree)])
        top = np.searchsorted(table, left, side="right") - 1
        left = left - table[top]
        columns.append(top - (size - 1))
    return np.array(columns).T


def _bins(strength: Array) -> list[Array]:
    """Features in order of strength: equal bins for the lower four fifths, ever smaller ones towards the top."""
    order = np.argsort(strength, kind="stable")
    top = 1 - 0.2 * np.geomspace(1.0, 0.02, _TOP_BINS)
    share = np.concatenate([np.linspace(0.0, 0.8, _BULK_BINS, endpoint=False), top, [1.0]])
    edges = np.unique(np.rint(share * order.size).astype(int))
    return [order[a:b] for a, b in itertools.pairwise(edges)]
