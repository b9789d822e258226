"""The support of a free sum or product, found from the outside: the real points where subordination stays real.

Outside its support a law has a decreasing real function (its Cauchy transform, say). Two factors at real points w1, w2
with the same value of it give a real point z of the result, and z is outside the support of the result exactly where z
increases with w1: there the fixed point is attracting. So the edges are the extrema of z along the gaps of the factors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rmt.laws.law import Array, SpectralLaw, hull

_SAMPLES = 161  # per pair of gaps, crowded double exponentially at both ends
_REACH = 3.0  # crowded to within 1e-13 of the width of a gap
_PAIRS = 4096  # of gaps looked into, the widest first
_MANY = 256  # pairs
_HORIZON = 1e6  # of the scale of the result
_SMALLEST = 1e-11  # a gap of the result is wider than this, relatively; less is rounding
_NARROWEST = 3e-9  # and so is an interval of the support; gaps of the factors are cut at poles, which leaves a seam


@dataclass(frozen=True, eq=False)
class Side:
    """A factor: its gaps (k, 2) and the decreasing real function `value` on each of them.

    The outermost gap, given as (right end, left end) of the law, passes through infinity, where `value` is continuous.
    """

    gaps: Array
    value: Callable[[Array], Array]
    spread: float

    def point(self, t: Array, gap: Array) -> Array:
        """The point of gap number `gap` at t in [-1, 1], in order of falling `value`: the whole open gap."""
        low, high = self.gaps[gap, 0], self.gaps[gap, 1]
        s = np.maximum(np.pi * np.sinh(_REACH * np.abs(t)), 1e-12)
        fraction = 1 / (1 + np.exp(s))
        inner = np.where(t < 0, low + (high - low) * fraction, high - (high - low) * fraction)
        distance = self.spread / np.expm1(s)
        return np.where(low < high, inner, np.where(t < 0, low + distance, high - distance))

    def is_outer(self, gap: Array) -> Array:
        return self.gaps[gap, 0] >= self.gaps[gap, 1]

    def find(self, value: Array, gap: Array) -> Array:
        """The point of the gap with this value; NaN where the gap has none."""
        from scipy.optimize import elementwise  # here: it is slow to import

        def excess(t: Array, gap: Array, value: Array) -> Array:
            return self.value(self.point(t, gap)) - value

        gap, value = np.broadcast_arrays(gap, value)
        ends = np.full(value.shape, -1.0), np.full(value.shape, 1.0)
        with np.errstate(all="ignore"):
            found = elementwise.find_root(excess, ends, args=(gap, value), tolerances={"xatol": 1e-18}, maxiter=80)
        no_change_of_sign = found.status == -1
        return np.where(no_change_of_sign, np.nan, self.point(np.nan_to_num(found.x), gap))


def side(law: SpectralLaw, value: Callable[[Array], Array], *, spread: float) -> Side:
    """A law as a factor; `value` takes real points outside the law. Gaps are cut where the self-energy has a pole.

    spread: the unit of length in the outer gap.
    """
    places = law.atoms[:, [0, 0]]
    closed = np.concatenate([law.support, places])
    gaps, reached = [], -np.inf
    for low, high in closed[np.argsort(closed[:, 0], kind="stable")]:
        if low > reached > -np.inf:
            gaps.append((reached, low))
        reached = max(reached, high)
    low, high = hull(law)
    inner = np.array(gaps).reshape(-1, 2)
    whole = Side(inner, lambda w: law.stieltjes(w).real, spread)
    pole = whole.find(np.zeros(len(inner)), np.arange(len(inner))) if gaps else np.empty(0)
    split = np.isfinite(pole)
    left = inner.copy()
    right = inner[split]
    left[split, 1], right[:, 0] = pole[split], pole[split]
    return Side(np.concatenate([left, right, [(high, low)]]), value, spread)


def outside_of_pair(
    first: Side, second: Side, position: Callable[[Array, Array, Array], Array], *, scale: float
) -> Array:
    """The gaps of the result, (k, 2) in order; scale: of the result, for rounding.

    position(w1, w2, outer) is the real point z; outer: whether w1 lies in the outer gap, where the self-energy of the
    first law is flat and z is best found from w2. Inner gaps end at poles of theirs. The points of each factor in turn
    are sampled: a narrow gap of the one is found from its own points. With many pairs, those of the law with more gaps.
    """
    one, two = _pairs(first, second)

    def by_first(row: Array, t: Array) -> Array:
        w1 = first.point(t, one[row])
        return _near(position(w1, second.find(first.value(w1), two[row]), first.is_outer(one[row])), scale)

    def by_second(row: Array, t: Array) -> Array:
        w2 = second.point(t, two[row])
        return _near(position(first.find(second.value(w2), one[row]), w2, first.is_outer(one[row])), scale)

    traces = [by_first, by_second]
    if one.size > _MANY:
        traces = [by_first if len(first.gaps) >= len(second.gaps) else by_second]
    return union(*(_outside(trace, one.size, scale) for trace in traces), seam=_NARROWEST * scale)


def union(*several: Array, seam: float) -> Array:
    """Intervals joined where they overlap or touch, to within `seam`."""
    found: list[list[float]] = []
    for a, b in sorted(map(tuple, np.concatenate(several))):
        if found and a <= found[-1][1] + seam:
            found[-1][1] = max(found[-1][1], b)
        else:
            found.append([a, b])
    return np.array(found).reshape(-1, 2)


def outside_of_one(factor: Side, position: Callable[[Array], Array], *, scale: float) -> Array:
    """The same for a power of one law; position(w)."""

    def trace(row: Array, t: Array) -> Array:
        return _near(position(factor.point(t, row)), scale)

    return _outside(trace, len(factor.gaps), scale)


def support_from(gaps: Array) -> Array:
    """What the gaps leave, (k, 2)."""
    if not (len(gaps) and np.isneginf(gaps[0, 0]) and np.isposinf(gaps[-1, 1])):
        raise ArithmeticError("the support was not found: no gap reaches to infinity on both sides")
    edges = np.stack([gaps[:-1, 1], gaps[1:, 0]], axis=1)
    return np.where(np.abs(edges) < 1e-14 * np.abs(edges).max(initial=0), 0.0, edges)


def _near(z: Array, scale: float) -> Array:
    """NaN for what is far away: infinity, and the poles of the self-energies."""
    return np.where(np.abs(z) < _HORIZON * scale, z, np.nan)


def _pairs(first: Side, second: Side) -> tuple[Array, Array]:
    """Indices of the pairs of gaps to look into: all, or those of the widest gaps."""
    widest = []
    for this, other in ((first, second), (second, first)):
        count = max(64, _PAIRS // len(other.gaps))
        width = np.append(this.gaps[:-1, 1] - this.gaps[:-1, 0], np.inf)
        order = np.argsort(-width, kind="stable")
        widest.append(np.sort(order[:count]))
    one, two = np.meshgrid(*widest, indexing="ij")
    return one.ravel(), two.ravel()


def _outside(trace: Callable[[Array, Array], Array], rows: int, scale: float) -> Array:
    """Intervals of z over the runs on which trace(row, t) rises with t, joined where they touch; the outer two infinite."""
    t = np.linspace(-1, 1, _SAMPLES) * np.ones((rows, 1))
    row = np.repeat(np.arange(rows), _SAMPLES).reshape(rows, _SAMPLES)
    with np.errstate(all="ignore"):
        z = trace(row, t)
        # once more, closely, where z falls most slowly: gaps about to close
        steepest = np.nanargmax(np.where(np.isnan(z[:, 1:] + z[:, :-1]), -np.inf, np.diff(z, axis=1)), axis=1)
        middle = t[0, steepest] + 1 / (_SAMPLES - 1)
        close = np.clip(middle[:, None] + 3 / _SAMPLES * t, -1, 1)
        step, floor = 2 / (_SAMPLES - 1), _SMALLEST * scale
        runs = [(r, t[r, a], t[r, b], step) for r in range(rows) for a, b in _rising(z[r], floor)]
        z = trace(row, close)
        runs += [
            (r, close[r, a], close[r, b], step * 3 / _SAMPLES) for r in range(rows) for a, b in _rising(z[r], floor)
        ]
        if not runs:
            return np.empty((0, 2))
        which, start, stop, width = np.array(runs).T
        row, sign = np.tile(which.astype(int), 2), np.repeat([-1, 1], which.size)
        ends = _extremum(trace, row, np.concatenate([start, stop]), np.tile(width, 2), sign)
        low, high = ends[: which.size], ends[which.size :]
    keep = high - low > floor
    gaps = union(np.stack([low, high], axis=1)[keep], seam=_NARROWEST * scale)
    far = 1e-3 * _HORIZON * scale
    return np.where(gaps < -far, -np.inf, np.where(gaps > far, np.inf, gaps))


def _rising(z: Array, floor: float) -> list[tuple[int, int]]:
    """(start, stop) of the maximal runs of finite samples that rise by more than rounding in all."""
    rises = np.concatenate([[False], np.diff(z) > 0, [False]])  # False beside NaN
    change = np.flatnonzero(np.diff(rises.astype(int)))
    return [(int(a), int(b)) for a, b in zip(change[::2], change[1::2], strict=True) if z[b] - z[a] > floor]


def _extremum(trace: Callable[[Array, Array], Array], row: Array, t: Array, step: Array, sign: Array) -> Array:
    """The largest value of sign * trace near each t, by narrowing a bracket; then with its sign. A flat top is exact."""
    best = np.full(t.shape, -np.inf)
    for _ in range(5):
        near = np.clip(t[:, None] + step[:, None] * np.linspace(-1, 1, 49), -1, 1)
        value = sign[:, None] * trace(np.broadcast_to(row[:, None], near.shape), near)
        value = np.where(np.isnan(value), -np.inf, value)
        top = np.argmax(value, axis=1)
        t = near[np.arange(t.size), top]
        best = np.maximum(best, value[np.arange(t.size), top])
        step = step / 24
    return sign * best
