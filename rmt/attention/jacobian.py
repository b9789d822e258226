"""The Jacobian of an attention layer with respect to W_Q, W_K, W_V and its tokens X, as an operator or dense.

Z = [head_1 ... head_h], head = attention(X W_Q, X W_K, X W_V) on the head's own columns, Z (n, h e). Vectors are row-major:
the output is vec(Z), the input stacks vec(W_Q), vec(W_K), vec(W_V) and vec(X), as many of them as `blocks` names. For one
head of softmax attention (derived, spectral-conditioning Theorem 3.3 is the same): with Lambda = blockdiag(diag p_i - p_i p_i^T),
    J_Q = c (I (x) V^T) Lambda (X (x) X W_K),   J_V = (P X) (x) I.

Null spaces that are known, by name:
    tokens  (width - rank X) (2 d + e) h: columns of the weights orthogonal to every token;
    gauge   d^2 h: (W_Q G, -W_K G^T) for any G in R^(d x d), softmax and Nystrom, if n and rank X are at least d;
    scale   2 d h: the length of every column of W_Q and W_K, cross-covariance attention.
Cross-covariance outputs stay in the column space of X: rank J <= rank X h e. Nystrom attention with few landmarks has a rank that
only its singular values tell.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rmt.attention.jacobian_draws import Projections
from rmt.attention.jacobian_nystrom import nystrom_head
from rmt.attention.jacobian_softmax import Head, mask_matrix, softmax_head
from rmt.attention.jacobian_xcit import xcit_head

__all__ = ["BLOCKS", "KINDS", "Attention", "AttentionJacobian"]

BLOCKS = ("query", "key", "value", "tokens")
KINDS = ("softmax", "xcit", "nystrom", "window")
AT_ONCE = 2**23  # scores of a stack of products held together


@dataclass(frozen=True)
class Attention:
    """What kind of attention a layer computes.

    scale: of the scores; None means 1/sqrt(d) (1 for xcit). mask: "none" or "causal", softmax only. window: tokens in a block
    of "window" attention. landmarks: of "nystrom".
    """

    kind: str = "softmax"
    heads: int = 1
    scale: float | None = None
    mask: str = "none"
    window: int = 8
    landmarks: int = 8

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"attention {self.kind!r} is unknown; choose from {', '.join(KINDS)}")
        if self.mask != "none" and self.kind != "softmax":
            raise ValueError(f"mask {self.mask} with {self.kind} attention has no meaning here; use softmax attention")

    def score_scale(self, channels: int) -> float:
        """What the scores of a head with that many channels are multiplied by."""
        return self.scale if self.scale is not None else 1.0 if self.kind == "xcit" else channels**-0.5

    def head(self, Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> Head:
        """One head linearised at queries, keys and values (n, .)."""
        scale = self.score_scale(Q.shape[1])
        if self.kind == "xcit":
            return xcit_head(Q, K, V, scale=scale)
        if self.kind == "nystrom":
            return nystrom_head(Q, K, V, scale=scale, landmarks=self.landmarks)
        mask = "window" if self.kind == "window" else self.mask
        return softmax_head(Q, K, V, scale=scale, allowed=mask_matrix(Q.shape[0], mask, window=self.window))


@dataclass(frozen=True, eq=False)
class AttentionJacobian:
    """The Jacobian at tokens X (n, width) and projections of `attention.heads` heads side by side."""

    tokens: np.ndarray
    weights: Projections
    attention: Attention = Attention()
    blocks: tuple[str, ...] = ("query", "key", "value")

    def __post_init__(self) -> None:
        unknown = [name for name in self.blocks if name not in BLOCKS]
        if unknown or not self.blocks:
            raise ValueError(f"blocks {self.blocks}: name some of {', '.join(BLOCKS)}")
        for name, W in zip(BLOCKS, self._matrices, strict=False):
            if W.shape[0] != self.tokens.shape[1] or W.shape[1] % self.attention.heads:
                rule = f"needs {self.tokens.shape[1]} rows, and columns that split into {self.attention.heads} heads"
                raise ValueError(f"{name} weight {W.shape}: {rule}")

    @property
    def _matrices(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.weights.query, self.weights.key, self.weights.value

    @functools.cached_property
    def heads(self) -> list[Head]:
        """The heads, linearised."""
        parts = [np.split(self.tokens @ W, self.attention.heads, axis=1) for W in self._matrices]
        return [self.attention.head(*three) for three in zip(*parts, strict=True)]

    @property
    def output(self) -> np.ndarray:
        """Z (n, h e)."""
        return np.concatenate([head.output for head in self.heads], axis=1)

    @property
    def shape(self) -> tuple[int, int]:
        """(numbers in Z, numbers in the blocks)."""
        return self.tokens.shape[0] * self.weights.value.shape[1], sum(self._sizes)

    @property
    def _sizes(self) -> list[int]:
        size = dict(zip(BLOCKS, (*self._matrices, self.tokens), strict=True))
        return [size[name].size for name in self.blocks]

    def each_head(self) -> list[AttentionJacobian]:
        """One Jacobian for each head. Over weights J is their block-diagonal sum, so its singular values are theirs together."""
        if "tokens" in self.blocks:
            raise ValueError("the block tokens is shared by the heads; take the weights alone")
        alone = dataclasses.replace(self.attention, heads=1)
        parts = zip(*(np.split(W, self.attention.heads, axis=1) for W in self._matrices), strict=True)
        return [AttentionJacobian(self.tokens, Projections(*three), alone, self.blocks) for three in parts]

    def only(self, *blocks: str) -> AttentionJacobian:
        """The same point, other blocks."""
        return AttentionJacobian(self.tokens, self.weights, self.attention, blocks)

    def split(self, x: np.ndarray) -> list[np.ndarray]:
        """The parts of x (..., columns) that belong to each block."""
        return np.split(x, np.cumsum(self._sizes)[:-1], axis=-1)

    def matvec(self, x: np.ndarray) -> np.ndarray:
        """J x for x (columns,), or for a stack (..., columns)."""
        x = np.asarray(x, dtype=float)
        if x.ndim > 1 and x.size // x.shape[-1] * self.tokens.shape[0] ** 2 > AT_ONCE:
            return np.stack([self.matvec(one) for one in x])
        moved = dict(zip(self.blocks, self.split(x), strict=True))
        dX = moved["tokens"].reshape(*x.shape[:-1], *self.tokens.shape) if "tokens" in moved else None
        parts = []
        for name, W in zip(BLOCKS, self._matrices, strict=False):
            total = np.zeros((*x.shape[:-1], self.tokens.shape[0], W.shape[1]))
            if name in moved:
                total = total + self.tokens @ moved[name].reshape(*x.shape[:-1], *W.shape)
            if dX is not None:
                total = total + dX @ W
            parts.append(np.split(total, self.attention.heads, axis=-1))
        found = [head.push(*three) for head, three in zip(self.heads, zip(*parts, strict=True), strict=True)]
        return np.concatenate(found, axis=-1).reshape(*x.shape[:-1], -1)

    def rmatvec(self, u: np.ndarray) -> np.ndarray:
        """J^T u for u (rows,), or for a stack (..., rows)."""
        u = np.asarray(u, dtype=float)
        if u.ndim > 1 and u.size // u.shape[-1] * self.tokens.shape[0] ** 2 > AT_ONCE:
            return np.stack([self.rmatvec(one) for one in u])
        dZ = u.reshape(*u.shape[:-1], self.tokens.shape[0], self.weights.value.shape[1])
        pulled = [
            head.pull(part) for head, part in zip(self.heads, np.split(dZ, self.attention.heads, axis=-1), strict=True)
        ]
        moved = [np.concatenate(parts, axis=-1) for parts in zip(*pulled, strict=True)]
        found = {name: self.tokens.T @ part for name, part in zip(BLOCKS, moved, strict=False) if name in self.blocks}
        if "tokens" in self.blocks:
            found["tokens"] = sum(part @ W.T for part, W in zip(moved, self._matrices, strict=True))
        return np.concatenate([found[name].reshape(*u.shape[:-1], -1) for name in self.blocks], axis=-1)

    def dense(self) -> np.ndarray:
        """J itself, (rows, columns), one row at a time through `rmatvec`."""
        return self.rmatvec(np.eye(self.shape[0]))

    def reduced(self) -> AttentionJacobian:
        """The same non-zero singular values on tokens of full column rank: X R and R^T W, R the row space of X.

        For blocks of weights only. The null space "tokens" is gone, and products are cheaper where rank X < width.
        """
        if "tokens" in self.blocks:
            raise ValueError("the block tokens moves every coordinate of X; reduce the weights alone")
        _, values, Rt = np.linalg.svd(self.tokens, full_matrices=False)
        R = Rt[values > values[0] * max(self.tokens.shape) * np.finfo(float).eps].T
        weights = Projections(*(R.T @ W for W in self._matrices))
        return AttentionJacobian(self.tokens @ R, weights, self.attention, self.blocks)

    def null_spaces(self) -> dict[str, int]:
        """Dimensions of the null spaces known by name, for the blocks query, key and value together."""
        n, width = self.tokens.shape
        rank = int(np.linalg.matrix_rank(self.tokens))
        found = {"tokens": (width - rank) * sum(W.shape[1] for W in self._matrices)}
        channels = self.weights.query.shape[1] // self.attention.heads
        if self.attention.kind == "xcit":
            found["scale"] = 2 * self.weights.query.shape[1]
        elif min(n, rank) >= channels:
            found["gauge"] = self.attention.heads * channels**2
        return found

    def gauge_vector(self, G: Sequence[np.ndarray]) -> np.ndarray:
        """(W_Q G, -W_K G^T, 0), one G (d, d) for each head: J maps it to zero for softmax and Nystrom attention."""
        heads = self.attention.heads
        query = [W @ g for W, g in zip(np.split(self.weights.query, heads, axis=1), G, strict=True)]
        key = [-W @ g.T for W, g in zip(np.split(self.weights.key, heads, axis=1), G, strict=True)]
        blocks = {"query": np.concatenate(query, axis=1), "key": np.concatenate(key, axis=1)}
        blocks |= {"value": np.zeros_like(self.weights.value), "tokens": np.zeros_like(self.tokens)}
        return np.concatenate([blocks[name].ravel() for name in self.blocks])
