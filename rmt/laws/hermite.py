"""The all-degrees law: singular values of sqrt(n) (A - 11^T/n) for softmax attention A over n tokens.

Derivation (heuristic, no proof). Up to normalisation n A_ij = exp(beta x - beta^2/2), x the logit over beta. Hermite
degree l of this function has variance a_l^2 = beta^(2l)/l!. For logits x = q.k/sqrt(d_k) it is an inner product of
N_l = C(d_k + l - 1, l) features, so its matrix has rank N_l: a free piece with rectangular R-transform
a_l^2 g/(1 - a_l^2 g^2/phi_l), phi_l = N_l/n. Degrees of nearly full rank, and all degrees of iid logits, are noise:
R(g) = variance * g. Free pieces add: R = sum of R_l, and the symmetrised Cauchy transform g(z) solves z = 1/g + R(g).
The bulk ends where dz/dg = 0. A further Gaussian factor with n rows and m columns multiplies z^2 by 1 + (n/m) g R(g).

Measured, medians of 64 draws (24 at n = 1024), second singular value over this edge moved by the median of Tracy-Widom,
beta = 0.3, 0.5, 0.83, 1:
    d_k = 64:  n = 256  0.990 0.997 1.015 1.050    n = 512  0.997 1.000 1.009 1.026    n = 1024  0.994 1.000 1.007 1.011
    d_k = 128: n = 256  0.998 1.001 1.029 1.049    n = 512  0.999 1.002 1.008 1.033    n = 1024  0.998 0.993 1.008 1.018
    d_k = 16:  n = 256  0.992 0.997 1.023 1.047    n = 512  0.999 0.995 1.024 1.052    n = 1024  0.999 0.996 1.009 1.035
    iid:       n = 256  1.002 1.007   -     -      n = 512  0.999 1.004   -     -      n = 1024  1.000 1.002   -     -
    d_k = 64, beta = 0.5, 0.83, 1: n = 4096  1.001 1.002 1.008 (10 draws); beta = 1: n = 2048  1.010 (24 draws)
(standard errors 0.001-0.02; iid at beta >= 0.83 has entries outside the bulk at these sizes). Bulk shapes are right to a
Kolmogorov distance of 0.03-0.13 for d_k >= 64: the fluctuation of query and key norms is left out.
Small logits, beta = 0.01 to 0.1, n = 256, 512, d_k = 16, 64, 8-12 draws: ranks 1 to 3 0.98 to 1.01. Where sigma_n^2 <= beta^2
(beta below about sqrt(2/n)) the degrees share sigma_n^2 in their proportions.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.optimize
import scipy.special

TW1_MEDIAN = -1.26857  # median and mean of the Tracy-Widom law, beta = 1
TW1_MEAN = -1.20653
_SECOND_MEDIAN = -3.2905  # second largest value: mean -3.2624, sd 1.0176, skewness 0.1655 (bornemann2010)
_DEGREES = 30


@dataclasses.dataclass(frozen=True)
class Edge:
    """The largest squared singular value: deterministic `square`, Tracy-Widom `scale` (n^-2/3 included).

    detached: whether a single large entry carries it, outside the bulk; then there is no Tracy-Widom shift.
    """

    square: float
    scale: float
    detached: bool

    def shifted(self, tracy_widom: float) -> float:
        """The square moved by a Tracy-Widom mean or median; a detached value does not move."""
        return self.square if self.detached else max(self.square + tracy_widom * self.scale, 0.0)


@dataclasses.dataclass(frozen=True)
class HermiteLaw:
    """Law of the singular values of sqrt(n) (A - 11^T/n).

    n: context length; variance: sigma_n^2, the variance of n A_ij; beta and head_dim of key-query logits, head_dim None
    for iid logits (then the quarter circle of radius 2 sigma_n). degrees: variances of the Hermite degrees 1, 2, ... of
    another function of the logits than the exponential.
    """

    n: int
    variance: float
    beta: float = 0.0
    head_dim: int | None = None
    degrees: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not (self.n >= 1 and self.variance > 0 and self.beta >= 0 and (self.head_dim is None or self.head_dim >= 1)):
            raise ValueError(
                f"n = {self.n}, variance = {self.variance}, beta = {self.beta}, head_dim = {self.head_dim}: "
                "needs n >= 1, a positive variance, beta >= 0 and head_dim >= 1"
            )

    @functools.cached_property
    def pieces(self) -> tuple[np.ndarray, np.ndarray, float]:
        """(a_l^2, phi_l) of the degrees of low rank, and the variance of the rest, which is noise."""
        if self.head_dim is None or self.beta == 0:
            return np.zeros(0), np.ones(0), self.variance
        count = _DEGREES if self.degrees is None else len(self.degrees)
        degree = np.arange(1, count + 1)
        weight = np.exp(degree * math.log(self.beta**2) - scipy.special.gammaln(degree + 1))
        most = self.variance * (1 - 1e-9)
        if self.degrees is not None:
            weight = np.diff(np.minimum(np.cumsum(self.degrees), self.variance), prepend=0.0)
            most = self.variance * (1 + 1e-6)  # a polynomial has no rest
        elif self.variance <= weight[0]:  # small logits: the normaliser takes 1/n, more than degrees 2, 3, ... add
            weight *= self.variance / math.expm1(self.beta**2)
            most = self.variance * (1 + 1e-6)
        d = self.head_dim
        log_rank = scipy.special.gammaln(d + degree) - scipy.special.gammaln(degree + 1) - scipy.special.gammaln(d)
        kept = (np.cumsum(weight) < most) & (weight > 1e-12 * self.variance)
        ratio = np.exp(log_rank[kept]) / self.n
        return weight[kept], ratio, max(self.variance - float(weight[kept].sum()), 0.0)

    def r_transform(self, g: Any) -> Any:
        """R(g), the rectangular R-transform; g real or complex."""
        weight, ratio, rest = self.pieces
        g = np.asarray(g)
        terms = weight * g[..., None] / (1 - weight * g[..., None] ** 2 / ratio)
        return terms.sum(axis=-1) + rest * g

    @property
    def fourth_moment(self) -> float:
        """E s^4 = 2 variance^2 + sum a_l^4/phi_l."""
        weight, ratio, _ = self.pieces
        return 2 * self.variance**2 + float(np.sum(weight**2 / ratio))

    def edge(self, *, factors: Sequence[float] = (), entry: float = 0.0) -> Edge:
        """The end of the spectrum of s^2, after Gaussian factors of ratios n/m each.

        entry: sqrt(n) times the typical largest entry of A; it detaches where g = 1/entry comes before the bulk's edge
        (entry theta in noise of variance sigma^2 gives (theta + sigma^2/theta)^2). The rule neglects the mean 1/n that is
        part of the entry, so one below 2/n is none: at small beta it would stand for no more than the mean.
        """
        critical, scale = self._critical_point(tuple(factors))
        detached = entry > 2 / math.sqrt(self.n) and 1 / entry < critical
        return Edge(float(self._square(1 / entry if detached else critical, factors)), scale, bool(detached))

    def _square(self, g: Any, factors: Sequence[float]) -> Any:
        """s^2 on the real axis outside the spectrum, as a function of the symmetrised Cauchy transform g."""
        moment = g * self.r_transform(g)
        return ((1 + moment) / g) ** 2 * np.prod([1 + factor * moment for factor in factors], axis=0)

    @functools.lru_cache(maxsize=1024)  # noqa: B019  (the cache is bounded)
    def _critical_point(self, factors: tuple[float, ...]) -> tuple[float, float]:
        """The g where the bulk ends, and the Tracy-Widom scale of s^2 there."""
        weight, ratio, _ = self.pieces
        largest = math.sqrt(float(np.min(ratio / weight))) if weight.size else 50 / math.sqrt(self.variance)

        def at(y: Any) -> Any:  # resolves g close to its largest value, where a low-rank piece has its edge
            return largest * scipy.special.expit(y)

        def square(y: Any) -> Any:
            return self._square(at(y), factors)

        def cauchy(y: float) -> float:
            return -float((1 + at(y) * self.r_transform(at(y))) / square(y))

        grid = np.linspace(-12.0, 20.0, 641)
        nearest = grid[np.argmin(square(grid))]
        y = float(
            scipy.optimize.minimize_scalar(
                lambda y: float(square(y)),
                bounds=(nearest - 0.05, nearest + 0.05),
                method="bounded",
                options={"xatol": 1e-8},
            ).x
        )
        step = 1e-3
        curvature = (square(y + step) - 2 * square(y) + square(y - step)) / step**2
        slope = (cauchy(y + step) - cauchy(y - step)) / (2 * step)
        # Near the edge z(m) = z* + z''(m - m*)^2/2 in the Cauchy transform m; its scale is (z''/2)^(1/3) n^(-2/3).
        return float(at(y)), float((max(curvature, 0.0) / slope**2 / 2) ** (1 / 3) * self.n ** (-2 / 3))

    def largest(self, count: int) -> np.ndarray:
        """Typical (median) values of the `count` largest s of n, shape (count,); count much smaller than n.

        The first two are the edge moved by medians of the Tracy-Widom laws; the k-th leaves k - 3/4 expected values above
        itself, as Airy points do (0.28 and 1.25 at their means for k = 1, 2).
        """
        edge = self.edge()
        moved = np.sqrt([max(edge.square + shift * edge.scale, 0.0) for shift in (TW1_MEDIAN, _SECOND_MEDIAN)])
        if count <= 2:
            return moved[:count]
        x = math.sqrt(edge.square) * np.linspace(0.3, 1.0, 200)
        rho = self.density(x)
        above = self.n * np.append(np.cumsum(((rho[1:] + rho[:-1]) / 2 * np.diff(x))[::-1])[::-1], 0.0)
        deeper = np.interp(np.arange(3, count + 1) - 0.75, above[::-1], x[::-1])
        return np.concatenate([moved, deeper])

    def log_moment(self, *, factors: Sequence[float] = ()) -> float:
        """E x ln x of x = s^2/E s^2, after Gaussian factors of ratios n/m each; zeros of x count as x ln x = 0.

        With phi(t) = E x/(x + t), ln x = Int (1/(1 + t) - 1/(x + t)) dt gives, after integration by parts,
        E x ln x = m ln(m/p) - m - Int_0^p (t - m/phi) dphi, m the mean and p = P(x > 0). On the imaginary axis, g = i h,
        the law is explicit: phi = h^2 (variance part of R)(h) and t = ((1 - phi)/h)^2 prod (1 - factor phi) (derived).
        """
        weight, ratio, rest = self.pieces
        # without noise the share of values that are not 0 is reached at h = infinity only
        rank = math.inf if rest > 1e-12 * self.variance else float(ratio.sum()) * (1 - 1e-6)
        weight, ratio = np.append(weight, rest), np.append(ratio, np.inf)
        most = min([1.0, rank, *(1 / factor for factor in factors)])

        def share(h: Any) -> Any:
            square = np.asarray(h)[..., None] ** 2
            return (weight * square / (1 + weight * square / ratio)).sum(axis=-1)

        end = 1.0
        while share(end) < most:
            end *= 2
        end = float(scipy.optimize.brentq(lambda h: float(share(h)) - most, 0.0, end, xtol=1e-15, rtol=1e-14))
        node, step = np.polynomial.legendre.leggauss(200)
        u, step = (node + 1) / 2, step / 2
        h = end * u**2
        square = h[:, None] ** 2
        phi = share(h)
        slope = (2 * weight * h[:, None] / (1 + weight * square / ratio) ** 2).sum(axis=-1)
        t = ((1 - phi) / h) ** 2 * np.prod([1 - factor * phi for factor in factors], axis=0)
        mean = float(weight.sum())
        total = float(np.sum(step * 2 * end * u * slope * (t - mean / phi)))
        return -math.log(most) - 1 - total / mean

    @property
    def support(self) -> np.ndarray:
        """[[0, edge]] of s, shape (1, 2)."""
        return np.array([[0.0, math.sqrt(self.edge().square)]])

    def density(self, x: Any) -> np.ndarray:
        """Density of s at x >= 0, by Newton continuation from far above the real axis; 0 outside the support."""
        x = np.atleast_1d(np.asarray(x, dtype=float))
        weight, ratio, rest = self.pieces
        end = self.support[0, 1]
        g = 1 / (x + 10j * end)
        for height in np.geomspace(10 * end, 1e-5 * end, 60):
            z = x + 1j * height
            for _ in range(8):
                share = weight * g[..., None] ** 2 / ratio
                value = 1 / g + g * ((weight / (1 - share)).sum(axis=-1) + rest) - z
                slope = -1 / g**2 + (weight * (1 + share) / (1 - share) ** 2).sum(axis=-1) + rest
                step = value / slope
                g = g - step
                if np.all(np.abs(step) <= 1e-7 * np.abs(g)):  # quadratic: the next step would be rounding
                    break
        return np.where((x >= 0) & (x <= end), np.maximum(-2 / math.pi * g.imag, 0.0), 0.0)


def mehler_singular_values(beta: float, head_dim: int, count: int) -> np.ndarray:
    """First singular values of the n -> infinity kernel of key-query softmax, with multiplicities (derived).

    E_k f(k + t q), t^2 = s = beta^2/d_k, acts on Gaussian functions: s_m = sqrt(lambda0^d_k r^m), multiplicity
    C(m + d_k - 1, m), r = (1 - sqrt(1 - 4 s^2))/(2 s), lambda0 = (1 - r)/sqrt(1 - 2 s). Raises ValueError unless s < 1/2.
    """
    s = beta**2 / head_dim
    if not 0 < s < 0.5:
        raise ValueError(f"beta^2/head_dim = {s}: needs to lie between 0 and 1/2")
    r = (1 - math.sqrt(1 - 4 * s * s)) / (2 * s)
    top = ((1 - r) / math.sqrt(1 - 2 * s)) ** (head_dim / 2)
    values: list[float] = []
    m = 0
    while len(values) < count:
        values += [top * r ** (m / 2)] * min(math.comb(m + head_dim - 1, m), count - len(values))
        m += 1
    return np.array(values)
