"""Everything random in the conditioning of attention, from named streams: projections, tokens, orthogonal controls.

Stream keys hold sizes only. Shift, correction, scale and mask never enter, so corrections are compared on the same weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rmt.arrays import CPU
from rmt.kernels import kernels_for
from rmt.streams import Stream

__all__ = ["INITS", "TOKENS", "Projections", "draw_projections", "draw_tokens", "normals"]

INITS = ("gaussian", "uniform")
TOKENS = ("layernorm", "gaussian")


def normals(stream: Stream, name: str, draw: int, rows: int, columns: int) -> np.ndarray:
    """iid N(0, 1), (rows, columns): made in float32 like every normal of the toolkit, returned in float64."""
    return kernels_for(CPU).variates(stream.words(name, draw), 0, rows, columns).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Projections:
    """W_Q, W_K (width, heads head_dim) and W_V (width, heads value_dim), heads side by side."""

    query: np.ndarray
    key: np.ndarray
    value: np.ndarray


def draw_projections(
    stream: Stream,
    draw: int,
    width: int,
    head_dim: int,
    value_dim: int,
    *,
    heads: int = 1,
    std: float,
    init: str = "gaussian",
    name: str = "weights",
) -> Projections:
    """Projections with independent entries of mean 0 and standard deviation `std`: Gaussian, or uniform (Xavier)."""
    if init not in INITS:
        raise ValueError(f"init {init!r} is unknown; choose from {', '.join(INITS)}")
    here = stream.within(f"conditioning/width={width}/{name}")
    columns = {"query": heads * head_dim, "key": heads * head_dim, "value": heads * value_dim}
    drawn = {which: normals(here, which, draw, width, count) for which, count in columns.items()}
    if init == "uniform":
        from scipy.special import ndtr

        drawn = {which: np.sqrt(3) * (2 * ndtr(W) - 1) for which, W in drawn.items()}
    return Projections(**{which: std * W for which, W in drawn.items()})


def draw_tokens(stream: Stream, draw: int, n: int, width: int, *, kind: str = "layernorm") -> np.ndarray:
    """X (n, width): iid N(0, 1) entries, with "layernorm" each row then centred and scaled to unit variance.

    Centred rows have rank(X) <= width - 1.
    """
    if kind not in TOKENS:
        raise ValueError(f"tokens {kind!r} are unknown; choose from {', '.join(TOKENS)}")
    X = normals(stream.within(f"conditioning/width={width}"), "tokens", draw, n, width)
    if kind == "layernorm":
        X -= X.mean(axis=1, keepdims=True)
        X /= np.sqrt(np.mean(X * X, axis=1, keepdims=True))
    return X
