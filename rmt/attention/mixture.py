"""Mixtures: the linear alterations of an attention matrix, said as numbers.

D (a A - b A_2 + i I - u J - r C) E,   J = 11^T/n,   C_ij = 1/i for j <= i (running mean),

with A_2 a second, independent attention matrix, D and E diagonal gains, and (I - J) from the left where asked. Every
matrix inside the bracket is row-stochastic, so constants are multiplied by a - b + i - u - r: exactly zero in a repair
that removes the mean. Products with the mixture and with its transpose follow from products with A.
A mixture may also project: (I - U U^T) from the left, U orthonormal columns that are fixed (ladder modes of C) or found
in the matrix itself (its leading left singular vectors).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from rmt.attention.directions import ladder_directions, leading_directions
from rmt.attention.mixing import Mixing
from rmt.attention.running_mean import running_mean, running_mean_transposed
from rmt.attention.split import SplitTokens, moved

__all__ = ["Mixed", "Mixture"]


@dataclass(frozen=True)
class Mixture:
    """The coefficients. `beta` replaces the deviation of the logits where it is given.

    output_gain, input_gain: "none", "root" (sqrt of the position) or "late" (zero for the first 32
    positions). gain multiplies everything.
    projected: "none", "ladder" (the four leading left singular vectors of C) or "outliers" (see `leading_directions`).
    """

    attention: float = 1.0
    second: float = 0.0
    identity: float = 0.0
    uniform: float = 0.0
    running: float = 0.0
    centred: bool = False
    output_gain: str = "none"
    input_gain: str = "none"
    gain: float = 1.0
    projected: str = "none"
    beta: float | None = None

    @property
    def row_sum(self) -> float:
        """What the bracket does to constants."""
        return self.attention - self.second + self.identity - self.uniform - self.running


@dataclass(frozen=True, eq=False)
class Mixed:
    """A mixture with its matrices: an n x n operator known by its products."""

    mixture: Mixture
    n: int
    first: Mixing | None = None
    other: Mixing | None = None

    def on_split(self, X: SplitTokens) -> SplitTokens:
        """The altered matrix times X, mean and rest apart."""
        mix = self.mixture
        mean, rest = X.mean, X.rest
        if mix.input_gain != "none":
            gains = self._gains(mix.input_gain)
            average = gains.mean()
            entered = moved(average * mean, np.outer(gains - average, mean) + gains[:, None] * rest)
            mean, rest = entered.mean, entered.rest
        out = moved(mix.row_sum * mean, self._bracket(rest))
        if mix.output_gain != "none":
            gains = self._gains(mix.output_gain)
            average = gains.mean()
            out = moved(average * out.mean, np.outer(gains - average, out.mean) + gains[:, None] * out.rest)
        if mix.centred:
            out = SplitTokens(np.zeros_like(out.mean), out.rest)
        if mix.projected != "none":
            U = self.basis
            out = moved(out.mean, out.rest - U @ (np.outer(U.sum(axis=0), out.mean) + U.T @ out.rest))
        return SplitTokens(mix.gain * out.mean, mix.gain * out.rest, X.log_scale)

    def apply(self, V: np.ndarray) -> np.ndarray:
        """The altered matrix times V (n, c)."""
        mix = self.mixture
        out = self.outgoing(self._bracket(self.incoming(V), constants=True))
        return mix.gain * out

    def transposed(self, U: np.ndarray) -> np.ndarray:
        """The transposed altered matrix times U (n, c)."""
        mix = self.mixture
        U = mix.gain * self.outgoing_transposed(U)
        out = self.linear_transposed(U)
        if mix.attention:
            out = out + mix.attention * self._first.transposed(U)
        if mix.second:
            out = out - mix.second * self._other.transposed(U)
        return self.incoming(out)

    def linear_transposed(self, U: np.ndarray) -> np.ndarray:
        """The transposed bracket times U without its attention matrices: identity and means."""
        mix = self.mixture
        out = mix.identity * U
        if mix.uniform:
            out = out - mix.uniform * U.mean(axis=0)
        return out - mix.running * running_mean_transposed(U) if mix.running else out

    def incoming(self, V: np.ndarray) -> np.ndarray:
        """E V; E is diagonal, hence its own transpose."""
        return V if self.mixture.input_gain == "none" else self._gains(self.mixture.input_gain)[:, None] * V

    def outgoing(self, Y: np.ndarray) -> np.ndarray:
        """What follows the bracket, without the overall gain."""
        if self.mixture.output_gain != "none":
            Y = self._gains(self.mixture.output_gain)[:, None] * Y
        if self.mixture.centred:
            Y = Y - Y.mean(axis=0)
        return Y - self.basis @ (self.basis.T @ Y) if self.mixture.projected != "none" else Y

    def outgoing_transposed(self, U: np.ndarray) -> np.ndarray:
        """The transpose of `outgoing`."""
        if self.mixture.projected != "none":
            U = U - self.basis @ (self.basis.T @ U)
        if self.mixture.centred:
            U = U - U.mean(axis=0)
        return U if self.mixture.output_gain == "none" else self._gains(self.mixture.output_gain)[:, None] * U

    def _bracket(self, V: np.ndarray, *, constants: bool = False) -> np.ndarray:
        """The bracket times V; without `constants` V has mean zero and J V is left out."""
        mix = self.mixture
        out = mix.identity * V
        if mix.attention:
            out = out + mix.attention * self._first.apply(V)
        if mix.second:
            out = out - mix.second * self._other.apply(V)
        if mix.uniform and constants:
            out = out - mix.uniform * V.mean(axis=0)
        if mix.running:
            out = out - mix.running * running_mean(V)
        return out

    @functools.cached_property
    def basis(self) -> np.ndarray:
        """The directions (n, k) that are projected out."""
        if self.mixture.projected == "ladder":
            return ladder_directions(self.n)
        return leading_directions(self._first)

    def _gains(self, name: str) -> np.ndarray:
        position = np.arange(1.0, self.n + 1)
        if name == "root":
            return np.sqrt(position)
        if name == "late":
            return (position > WARM_UP).astype(float)
        raise ValueError(f"gain {name!r} is unknown: choose none, root or late")

    @property
    def _first(self) -> Mixing:
        assert self.first is not None, "the mixture holds attention, so it needs a matrix"
        return self.first

    @property
    def _other(self) -> Mixing:
        assert self.other is not None, "the mixture holds a second attention, so it needs two matrices"
        return self.other


WARM_UP = 32
