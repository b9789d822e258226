"""Condition numbers of weight matrices: as drawn, and with a correction added.

W (rows, columns) has independent entries of mean 0 and standard deviation `std`; c = columns/rows <= 1 (transpose a wide
matrix), scale s = std sqrt(rows). E^T E = I.

Edges of W + shift E (derived from the deterministic equivalent of a matrix plus noise). With m the Stieltjes transform of
the law of the squared singular values and u = 1 + s^2 c m,
    z(u) = shift^2/u^2 + s^2 (1 - c)/u - s^2 c/(u (u - 1)),
and the squared edges are the critical values of z. At shift = 0 they are s^2 (1 -+ sqrt c)^2 (Marchenko-Pastur). Square,
t = shift/s > 1: s^2 (sqrt(1 + 8 t^2) -+ 3)^3 / (8 (sqrt(1 + 8 t^2) -+ 1)); for t <= 1 the lower edge is 0: a transition.

Finite size (derived). At an edge z is a parabola in u, so the law begins like (a/pi) sqrt|x - z| with
a = sqrt(2/|z''|)/(s^2 c), and the extreme of `columns` values stands at z + TW (a columns)^(-2/3) to the inside, TW the
Tracy-Widom law of order 1, median -1.2686 (bornemann2010). Ratio of measured to predicted median of kappa, 40 draws: within
1.5 % for 768x64, 512x128, 256x128, 256x192 and 256x256 at every shift from 0 (square: from 1.5 s) to 10, within 3 % for 64x16
and 4 % for 32x8; the bare edges are 2 to 7 % too high there (24 % at 32x8).

Square below the transition (derived). The law near 0 has 1 - t^2 times the squared density of t = 0 and hard-edge values
are universal, so kappa = rows (s_max/2s) sqrt(1 - t^2) x with x of Edelman's law. Kolmogorov distance .012 to .024 at
rows = 64 (3000 draws, t = 0 to 0.9; noise .025), medians within 5 %.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rmt.laws.edelman import EdelmanConditionNumber
from rmt.laws.hermite import TW1_MEDIAN
from rmt.theorems.prediction import Approximation, Bound, Prediction, out_of_range, relative_band

__all__ = [
    "Edges",
    "edelman_variable",
    "shifted_condition",
    "shifted_edges",
    "shifted_values",
    "svd_bound",
    "svd_condition",
    "weyl_condition",
    "weyl_shift",
]

SOURCE = "derived, see rmt.theorems.conditioning"
LARGEST_CORRECTION = 0.25  # of log kappa: beyond it the parabola at the edge is a poor picture
HARD_EDGE_ROWS, HARD_EDGE_TIME = 64, 0.9


@dataclass(frozen=True)
class Edges:
    """Ends of the law of the singular values of W + shift E, and where medians of finite matrices stand.

    lower, upper: the edges; lower is 0 for a square matrix up to the transition.
    median_lower, median_upper: Tracy-Widom medians of the smallest and the largest value; median_lower is None where the
        edge is 0.
    """

    lower: float
    upper: float
    median_lower: float | None
    median_upper: float

    @property
    def condition(self) -> float:
        """kappa in the limit of large matrices: infinite where the lower edge is 0."""
        return self.upper / self.lower if self.lower > 0 else math.inf


def shifted_edges(rows: int, columns: int, *, std: float, shift: float = 0.0) -> Edges:
    """Edges of W + shift E, any real shift. Raises ValueError for more columns than rows, or a std that is not positive."""
    if not 1 <= columns <= rows:
        raise ValueError(f"{rows} x {columns}: needs 1 <= columns <= rows; transpose the matrix")
    if not (std > 0 and math.isfinite(std) and math.isfinite(shift)):
        raise ValueError(f"std = {std}, shift = {shift}: std must be positive and both finite")
    if abs(shift) > 1e6 * std * math.sqrt(rows):  # the two roots near u = 1 become one to rounding
        raise ValueError(f"shift = {shift}: at most 1e6 std sqrt(rows); beyond, kappa is 1 to six digits")
    aspect = columns / rows
    lam2 = float(shift / (std * math.sqrt(rows))) ** 2  # in units of the noise, s = 1
    cubic = [-(1 - aspect), 2 - 2 * lam2, 4 * lam2 - 1, -2 * lam2]
    found = []
    for root in np.roots(np.trim_zeros(cubic, "f")):
        u = float(root.real)
        if abs(root.imag) > 1e-9 or abs(u) < 1e-12 or abs(u - 1) < 1e-12:
            continue
        z = lam2 / u**2 + (1 - aspect) / u - aspect / (u * (u - 1))
        bend = 6 * lam2 / u**4 + 2 * (1 - aspect) / u**3 - 2 * aspect * ((u - 1) ** -3 - u**-3)
        if z > 1e-12 and bend != 0:
            found.append((z, (math.sqrt(2 / abs(bend)) / aspect * columns) ** (-2 / 3)))
    found.sort()
    s = std * math.sqrt(rows)
    top, width = found[-1]
    median_upper = s * math.sqrt(top) * math.exp(TW1_MEDIAN * width / top / 2)
    if len(found) < 2:
        return Edges(0.0, s * math.sqrt(top), None, median_upper)
    bottom, narrow = found[0]
    median_lower = s * math.sqrt(bottom) * math.exp(-TW1_MEDIAN * narrow / bottom / 2)
    return Edges(s * math.sqrt(bottom), s * math.sqrt(top), median_lower, median_upper)


def shifted_condition(rows: int, columns: int, *, std: float, shift: float = 0.0) -> Prediction:
    """The median of kappa(W + shift E). Band: 1 % plus a quarter of the finite-size correction of log kappa.

    Out of range within the transition of a nearly square matrix, where that correction exceeds 0.25.
    """
    edges, s = shifted_edges(rows, columns, std=std, shift=shift), std * math.sqrt(rows)
    time = abs(shift) / s
    if edges.median_lower is None:
        if rows < HARD_EDGE_ROWS or time > HARD_EDGE_TIME:
            rule = f"square, {rows} rows, shift/s = {time:.3g}: needs {HARD_EDGE_ROWS} rows and shift <= 0.9 s or > s"
            return out_of_range(rule, source=SOURCE, statistic="median")
        value = _hard_edge_scale(rows, edges, s, time) * float(EdelmanConditionNumber().quantile(0.5))
        return _said(value, 0.08, f"square, {rows} >= 64 rows, shift = {time:.3g} s <= 0.9 s: hard edge, Edelman's law")
    value = edges.median_upper / edges.median_lower
    correction = abs(math.log(edges.condition / value))
    if correction > LARGEST_CORRECTION:
        rule = f"correction {correction:.2g} of log kappa > {LARGEST_CORRECTION}: the lower edge is too near 0 at this size"
        return out_of_range(rule, source=SOURCE, statistic="median")
    return _said(value, 0.01 + correction / 4, f"finite-size correction {correction:.2g} of log kappa <= 0.25")


def shifted_values(rows: int, columns: int, *, std: float, shift: float = 0.0) -> dict[str, Prediction]:
    """Medians of kappa, s_max and s_min of W + shift E, by the names of the observables."""
    found = {"weight_condition_number": shifted_condition(rows, columns, std=std, shift=shift)}
    edges = shifted_edges(rows, columns, std=std, shift=shift)
    found["largest_singular_value"] = _said(edges.median_upper, 0.01, "upper edge, with its finite-size median")
    if found["weight_condition_number"].in_range and edges.median_lower is not None:
        move = abs(math.log(edges.median_lower / edges.lower))
        found["smallest_singular_value"] = _said(
            edges.median_lower, 0.01 + move / 4, f"lower edge > 0, moved by {move:.2g} in the logarithm"
        )
    return found


def svd_bound() -> Prediction:
    """kappa(W + C) <= 2 for the SVD correction (Theorem 3.5)."""
    return Bound(
        value=2.0,
        side="upper",
        source="spectral-conditioning, Theorem 3.5",
        validity="any W of full rank, C = s_max U V^T",
        standing="theorem",
    )


def edelman_variable(rows: int, *, std: float, shift: float = 0.0) -> float:
    """What kappa(W + shift I) of a square matrix is divided by to follow Edelman's law; shift <= 0.9 s."""
    s = std * math.sqrt(rows)
    if abs(shift) > HARD_EDGE_TIME * s:
        raise ValueError(f"shift = {shift} > 0.9 s = {0.9 * s:.3g}: the lower edge is no longer a hard edge")
    return _hard_edge_scale(rows, shifted_edges(rows, rows, std=std, shift=shift), s, abs(shift) / s)


def _hard_edge_scale(rows: int, edges: Edges, s: float, time: float) -> float:
    return rows * edges.median_upper / (2 * s) * math.sqrt(1 - time**2)


def _said(value: float, fraction: float, validity: str) -> Prediction:
    band = relative_band(value, fraction)
    return Approximation(value=value, band=band, source=SOURCE, validity=validity, statistic="median")


def svd_condition(condition: float, *, strength: float = 1.0) -> float:
    """kappa(W + C) with C = strength s_max U V^T, exactly (1 + a)/(1/kappa + a); 2 kappa/(1 + kappa) < 2 at a = 1.

    spectral-conditioning, Theorem 3.5 states kappa <= 2; the identity is derived: every value rises by a s_max.
    """
    return (1 + strength) / (1 / condition + strength)


def weyl_condition(largest: float, shift: float) -> float:
    """Upper bound of kappa(W + shift E), (shift + s_max)/(shift - s_max), for shift > s_max (Weyl); infinite below."""
    return (shift + largest) / (shift - largest) if shift > largest else math.inf


def weyl_shift(largest: float, condition: float) -> float:
    """Beyond this shift kappa(W + shift E) < kappa(W) whatever W is: s_max (kappa + 1)/(kappa - 1).

    spectral-conditioning, Theorem 3.8 asks for shift >= 2 "under specific conditions"; this is a condition that suffices
    (derived, Weyl). shift >= 2 alone does not: W = diag(-3, -2.5, -2.2, -2.05) has kappa 1.46 and W + 2I has kappa 20.
    kappa <= 2 needs shift >= 3 s_max by the same bound.
    """
    return largest * (condition + 1) / (condition - 1) if condition > 1 else math.inf
