"""A transformer with scaled skip connections: its architecture, its weights as one vector, its random start."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from rmt.arrays import CPU
from rmt.ensembles.parameters import check_choice, check_count
from rmt.kernels import kernels_for
from rmt.regression.residual_attention import SCALINGS, score_scaling
from rmt.streams import Stream

ACTIVATIONS = ("relu", "gelu", "tanh")
NORMS = ("none", "pre", "post")


@dataclass(frozen=True)
class Transformer:
    """The map X (batch, n, width) -> F (batch, n, outputs), or (batch, outputs) where tokens are pooled.

    Each of `depth` layers is Z = Attn(X) + skip_scale X, H = Z + phi(Z W_1) W_2, with `heads` heads of queries and keys
    of width head_dim and values of width width/heads, and `hidden` units. `norm` "pre" normalises what enters attention
    and the hidden units, "post" normalises Z and H (mean zero, variance one over each token, no parameters). Then
    F = H W_U, of the mean token with `pooled`.
    """

    width: int
    outputs: int
    head_dim: int
    hidden: int
    depth: int = 1
    heads: int = 1
    activation: str = "relu"
    skip_scale: float = 1.0
    scaling: str = "standard"
    norm: str = "none"
    pooled: bool = False

    def __post_init__(self) -> None:
        for name in ("width", "outputs", "head_dim", "hidden", "depth", "heads"):
            check_count(name, getattr(self, name))
        check_choice("activation", self.activation, ACTIVATIONS)
        check_choice("scaling", self.scaling, SCALINGS)
        check_choice("norm", self.norm, NORMS)
        if self.width % self.heads:
            raise ValueError(f"width {self.width} does not split into {self.heads} heads; choose a divisor of it")

    @property
    def score_factor(self) -> float:
        """What scores are multiplied by."""
        return score_scaling(self.scaling, width=self.width, head_dim=self.head_dim).factor

    @cached_property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Shapes of the matrices in the order of the vector: W_Q, W_K, W_V, W_1, W_2 of each layer, then W_U."""
        d, inner = self.width, self.heads * self.head_dim
        layer = ((d, inner), (d, inner), (d, d), (d, self.hidden), (self.hidden, d))
        return self.depth * layer + ((d, self.outputs),)

    @property
    def size(self) -> int:
        """How many weights there are."""
        return sum(rows * columns for rows, columns in self.shapes)

    def start(self, stream: Stream, draw: int) -> TransformerWeights:
        """Gaussian weights of variance 1/fan-in (queries and keys as `scaling` says).

        Neither skip scale nor activation, scaling or norm enters the stream: they are compared on the same normals.
        """
        here = stream.within(
            f"transformer/width={self.width}/head_dim={self.head_dim}/heads={self.heads}/{self.hidden}"
        )
        names = [f"layer {layer} {name}" for layer in range(self.depth) for name in Layer._fields] + ["readout"]
        query = score_scaling(self.scaling, width=self.width, head_dim=self.head_dim).variance
        blocks = []
        for name, (rows, columns) in zip(names, self.shapes, strict=True):
            variance = query if name.endswith(("query", "key")) else 1 / rows
            normals = kernels_for(CPU).variates(here.words(name, draw), 0, rows, columns).astype(np.float64)
            blocks.append(np.sqrt(variance) * normals.ravel())
        return TransformerWeights(self, np.concatenate(blocks))


class Layer(NamedTuple):
    """The matrices of one layer."""

    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    inner: np.ndarray
    outer: np.ndarray


@dataclass(frozen=True, eq=False)
class TransformerWeights:
    """All weights of a transformer as one vector `entries` (size,); a vector space, as descents need it."""

    model: Transformer
    entries: np.ndarray

    def __add__(self, other: TransformerWeights) -> TransformerWeights:
        return self.like(self.entries + other.entries)

    def __sub__(self, other: TransformerWeights) -> TransformerWeights:
        return self.like(self.entries - other.entries)

    def __rmul__(self, factor: float) -> TransformerWeights:
        return self.like(factor * self.entries)

    def vector(self) -> np.ndarray:
        """The entries."""
        return self.entries

    def like(self, vector: np.ndarray) -> TransformerWeights:
        """Weights of the same model with these entries; complex ones are allowed, for derivatives by complex steps."""
        return replace(self, entries=vector)

    @property
    def norm(self) -> float:
        """Euclidean norm."""
        return float(np.linalg.norm(self.entries))

    @property
    def is_finite(self) -> bool:
        """False as soon as one entry is infinite or not a number."""
        return bool(np.isfinite(self.entries).all())

    @cached_property
    def matrices(self) -> list[np.ndarray]:
        """Views of the matrices, in the order of `Transformer.shapes`."""
        found, at = [], 0
        for rows, columns in self.model.shapes:
            found.append(self.entries[at : at + rows * columns].reshape(rows, columns))
            at += rows * columns
        return found

    @property
    def layers(self) -> list[Layer]:
        """The matrices of each layer."""
        return [Layer(*self.matrices[5 * at : 5 * at + 5]) for at in range(self.model.depth)]

    @property
    def readout(self) -> np.ndarray:
        """W_U (width, outputs)."""
        return self.matrices[-1]
