"""Everything random in softmax regression, from named streams.

Stream keys hold sizes only: covariance, target, noise, tau and optimiser never enter, so they are compared on the
same normals.
"""

from __future__ import annotations

import numpy as np

from rmt.arrays import CPU
from rmt.kernels import kernels_for
from rmt.regression.softmax_problem import Contexts, SoftmaxRegression
from rmt.regression.softmax_weights import Weights
from rmt.streams import Stream


def normals(stream: Stream, name: str, draw: int, rows: int, columns: int) -> np.ndarray:
    """iid N(0, 1), (rows, columns): made in float32 like every normal of the toolkit, returned in float64."""
    return kernels_for(CPU).variates(stream.words(name, draw), 0, rows, columns).astype(np.float64)


def token_normals(
    stream: Stream, draw: int, n: int, width: int, *, contexts: int = 1, name: str = "train"
) -> np.ndarray:
    """Standard normals of the tokens, (contexts, n, width)."""
    here = stream.within(f"softmax/n={n}/width={width}/{name}")
    return np.stack([normals(here, f"tokens {context}", draw, n, width) for context in range(contexts)])


def draw_contexts(
    problem: SoftmaxRegression, stream: Stream, draw: int, n: int, *, contexts: int = 1, name: str = "train"
) -> Contexts:
    """Training data of a problem: `contexts` contexts of n tokens each, with their labels."""
    here = stream.within(f"softmax/n={n}/width={problem.width}/outputs={problem.outputs}/{name}")
    labels = np.stack([normals(here, f"labels {context}", draw, n, problem.outputs) for context in range(contexts)])
    return problem.respond(token_normals(stream, draw, n, problem.width, contexts=contexts, name=name), labels)


def draw_weights(stream: Stream, draw: int, width: int, outputs: int, *, name: str = "start") -> Weights:
    """Standard normal weights: the raw material of a random start or of a displacement."""
    here = stream.within(f"softmax/width={width}/outputs={outputs}/{name}")
    return Weights(normals(here, "value", draw, outputs, width), normals(here, "score", draw, width, width))


def draw_order(stream: Stream, draw: int, queries: int, epochs: int) -> np.ndarray:
    """Random orders of the queries, (epochs, queries): independent uniform permutations."""
    here = stream.within(f"softmax/queries={queries}")
    return np.argsort(normals(here, "order", draw, epochs, queries), axis=1, kind="stable")
