"""Training data for the transformer: random tokens, windows of a time series, sentences."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from rmt.arrays import CPU
from rmt.kernels import kernels_for
from rmt.regression.datasets import Sentences, Series
from rmt.regression.transformer_loss import SquaredLoss
from rmt.streams import Stream


def random_tokens(
    stream: Stream, draw: int, *, n: int, width: int, outputs: int, correlation: float = 0.0
) -> SquaredLoss:
    """One sequence of N(0, 1) tokens with this pairwise correlation, and N(0, 1) targets.

    The correlation does not enter the stream: correlated tokens share the normals of independent ones.
    """
    here = stream.within(f"transformer data/n={n}/width={width}")
    own, shared = _normals(here, "tokens", draw, n, width), _normals(here, "shared token", draw, 1, width)
    X = math.sqrt(1 - correlation) * own + math.sqrt(correlation) * shared
    return SquaredLoss(X[None], _normals(here, "targets", draw, n, outputs)[None])


def series_window(series: Series, stream: Stream, draw: int, *, n: int, lags: int) -> SquaredLoss:
    """One random window of a series: n tokens of `lags` times each, targets the values one time later."""
    count = series.windows(n, lags)
    if count < 1:
        raise ValueError(f"{len(series.values)} times hold no window of {n} tokens with {lags} lags; lower --n")
    place = special.ndtr(_normals(stream.within("transformer data/window"), "start", draw, 1, 1)[0, 0])
    tokens, targets = series.window(min(int(place * count), count - 1), n, lags)
    return SquaredLoss(tokens[None], targets[None])


def embedded_sentences(
    sentences: Sentences, stream: Stream, draw: int, *, n: int, width: int, count: int | None = None
) -> SquaredLoss:
    """Sentences as n tokens each, every word a fixed vector of N(0, 1) entries; targets +1 and -1, for pooled tokens.

    At most `count` of them, a random choice of each draw in the order of the file; all of them where there are fewer.
    """
    here = stream.within(f"transformer data/words/width={width}")
    embedding = _normals(here, "embedding", draw, len(sentences.vocabulary), width)
    total = len(sentences.words)
    chosen = np.arange(total)
    if count is not None and count < total:
        chosen = np.sort(np.argsort(_normals(here, "choice", draw, total, 1)[:, 0])[:count])
    return SquaredLoss(sentences.tokens(chosen, n, embedding), sentences.labels[chosen, None])


def _normals(stream: Stream, name: str, draw: int, rows: int, columns: int) -> np.ndarray:
    return kernels_for(CPU).variates(stream.words(name, draw), 0, rows, columns).astype(np.float64)
