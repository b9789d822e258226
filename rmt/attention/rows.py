"""Rows of attention from what is drawn and a score: by the kernels of softmax where they cover it, scored elsewhere."""

from __future__ import annotations

import numpy as np

from rmt.arrays import Array, Backend
from rmt.attention.scores import NormalLogits, ProductLogits, Score, ScoredRows
from rmt.ensembles.attention import key_query_rows
from rmt.ensembles.markov import MarkovAttention, MarkovRows
from rmt.ensembles.matrix import RowSource
from rmt.streams import Stream

__all__ = ["iid_attention", "key_query_attention"]


def iid_attention(
    stream: Stream, draw: int, *, n: int, beta: float, weights: str, score: Score, dtype: np.dtype, backend: Backend
) -> RowSource:
    """Attention with iid weights, or with logits of deviation beta: the same numbers under every score."""
    ensemble = MarkovAttention(
        n=n, beta=beta, weights=weights, mask="causal" if score.mask.name == "causal" else "none"
    )
    words = stream.within(ensemble.stream_key).words("logits", draw)
    if score.plain:
        return MarkovRows(words, ensemble, dtype, backend)
    return ScoredRows(NormalLogits(n, words, beta, dtype, backend), score)


def key_query_attention(
    queries: Array, keys: Array, scale: float, *, score: Score, dtype: np.dtype, backend: Backend
) -> RowSource:
    """Attention with logits scale Q K^T, for Q and K (n, head_dim)."""
    if score.plain:
        return key_query_rows(queries, keys, scale, score.mask.name, dtype, backend)
    xp = backend.xp
    scaled = xp.ascontiguousarray(xp.asarray(queries, dtype=dtype)) * dtype.type(scale)
    return ScoredRows(ProductLogits(scaled, xp.ascontiguousarray(xp.asarray(keys, dtype=dtype)), backend), score)
