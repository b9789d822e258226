"""Attention with a residual connection, Z = Attn(X) + skip_scale X, at initialisation and at any size."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import scipy.linalg

from rmt.arrays import CPU
from rmt.ensembles.attention import key_query_rows
from rmt.ensembles.matrix import AttentionMatrix, attention_matrix
from rmt.ensembles.parameters import check_choice, check_count
from rmt.kernels import kernels_for
from rmt.streams import Stream

SCALINGS = ("standard", "mup", "unscaled", "fan_out", "fan_out_unscaled")
VALUES = ("gaussian", "opposed")
_STRIP = 1024  # columns of the value product made at a time: the value weights are never held whole


@dataclasses.dataclass(frozen=True)
class Scaling:
    """How scores are scaled: variance of a query or key weight, and the factor of the scores."""

    variance: float
    factor: float


def score_scaling(name: str, *, width: int, head_dim: int) -> Scaling:
    """The conventions by name: weights of variance 1/width or 1/head_dim, scores over sqrt(head_dim), head_dim or 1."""
    check_choice("scaling", name, SCALINGS)
    variance = 1 / head_dim if name.startswith("fan_out") else 1 / width
    factor = 1.0 if name.endswith("unscaled") else 1 / head_dim if name == "mup" else head_dim**-0.5
    return Scaling(variance, factor)


@dataclasses.dataclass(frozen=True)
class ResidualAttention:
    """Z = softmax(c X W_Q W_K^T X^T) X W_V + skip_scale X over n tokens of width d, everything float64.

    Tokens are N(0, 1) entries; `correlation` rho gives every pair of tokens that correlation, X = sqrt(1 - rho) G +
    sqrt(rho) 1 g^T. W_V has variance 1/width ("gaussian"), or is -skip_scale I ("opposed": then Z = skip_scale (I - P) X,
    and the stationary distribution of P annihilates it from the left: Z never has n independent rows, whatever X is).
    """

    n: int
    width: int
    head_dim: int = 64
    skip_scale: float = 1.0
    correlation: float = 0.0
    scaling: str = "standard"
    values: str = "gaussian"

    def __post_init__(self) -> None:
        for name in ("n", "width", "head_dim"):
            check_count(name, getattr(self, name))
        check_choice("values", self.values, VALUES)
        score_scaling(self.scaling, width=self.width, head_dim=self.head_dim)
        if not 0 <= self.correlation < 1:
            raise ValueError(f"correlation {self.correlation}: must lie in [0, 1); choose 0 for independent tokens")

    def tokens(self, stream: Stream, draw: int) -> np.ndarray:
        """X, (n, width). The same normals serve every correlation."""
        own = self._normals(stream, "tokens", draw, self.n)
        if self.correlation == 0:
            return own
        shared = self._normals(stream, "shared token", draw, 1)
        return math.sqrt(1 - self.correlation) * own + math.sqrt(self.correlation) * shared

    def queries_and_keys(self, stream: Stream, draw: int, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """X W_Q and X W_K, each (n, head_dim). The same normals serve every scaling."""
        scale = math.sqrt(score_scaling(self.scaling, width=self.width, head_dim=self.head_dim).variance)
        names = (f"head_dim={self.head_dim}/{name}" for name in ("query weights", "key weights"))
        queries, keys = (scale * X @ self._normals(stream, name, draw, self.head_dim).T for name in names)
        return queries, keys

    def attention(
        self, queries: np.ndarray, keys: np.ndarray, *, workers: int = 1, memory_budget: int | None = None
    ) -> AttentionMatrix:
        """P, row-stochastic (n, n)."""
        factor = score_scaling(self.scaling, width=self.width, head_dim=self.head_dim).factor
        source = key_query_rows(queries, keys, factor, "none", np.dtype(np.float64), CPU)
        return attention_matrix(source, workers=workers, memory_budget=memory_budget)

    def output(self, stream: Stream, draw: int, X: np.ndarray, P: AttentionMatrix) -> np.ndarray:
        """Z, (n, width)."""
        if self.values == "opposed":
            return self.skip_scale * (X - P.apply(X))
        Z = np.empty((self.n, self.width))
        words = stream.within(self.stream_key).words("value weights", draw)
        for start in range(0, self.width, _STRIP):
            stop = min(start + _STRIP, self.width)
            columns = kernels_for(CPU).variates(words, start, stop, self.width).astype(np.float64)
            Z[:, start:stop] = P.apply(X @ columns.T / math.sqrt(self.width))
        Z += self.skip_scale * X
        return Z

    @property
    def stream_key(self) -> str:
        """Names what is drawn: neither skip scale nor correlation, scaling or kind of values enters."""
        return f"residual/n={self.n}/width={self.width}"

    def _normals(self, stream: Stream, name: str, draw: int, rows: int) -> np.ndarray:
        words = stream.within(self.stream_key).words(name, draw)
        return kernels_for(CPU).variates(words, 0, rows, self.width).astype(np.float64)


def score_norm(queries: np.ndarray, keys: np.ndarray, factor: float) -> float:
    """Spectral norm of the scores c Q K^T after rows and columns are centred, from two triangular factors."""
    left, right = (scipy.linalg.qr(M - M.mean(axis=0), mode="r")[0] for M in (queries, keys))
    return factor * float(np.linalg.norm(left @ right.T, 2))
