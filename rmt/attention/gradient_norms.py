"""Squared Frobenius norms of dX_L/dW_l, the Jacobian of the last tokens with respect to a layer's value weights.

Without skip and norm, and with attention that does not look at its tokens, X_L = P X_0 W_1 ... W_L, P = A_L ... A_1, and
    dX_L/dW_l = (P X_0 W_1 ... W_(l-1)) (x) (W_(l+1) ... W_L)^T,
    ||dX_L/dW_l||_F^2 = ||P X_0 W_1 ... W_(l-1)||_F^2 ||W_(l+1) ... W_L||_F^2                          (exact),
two chains of d x d matrices. Otherwise E ||d<G, X_L>/dW_l||_F^2 = ||dX_L/dW_l||_F^2 for G of iid N(0, 1) entries: an
unbiased estimate from a few backward passes, or the exact sum over all n d unit cotangents.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from rmt.arrays import CPU
from rmt.attention.gradients import network_backward
from rmt.attention.network import Network
from rmt.kernels import kernels_for
from rmt.streams import Stream

__all__ = ["exact_norms", "factorised_norms", "factorises", "gaussian_cotangent", "probed_norms"]


def factorises(network: Network) -> bool:
    """Whether the Jacobian is a Kronecker product."""
    return network.homogeneous and network.skip is None and network.heads == 1 and not network.projects


def factorised_norms(network: Network, stream: Stream, draw: int, depth: int, *, weight_draws: int = 1) -> np.ndarray:
    """ln ||dX_L/dW_l||_F^2 for l = 1, ..., depth: (weight_draws, depth), exact.

    The attention matrices are those of `draw` throughout; further weight draws replace the value weights alone.
    Raises ValueError where the Jacobian is no product.
    """
    if not factorises(network):
        raise ValueError("the gradient factorises for one head without skip, norm and output weights; use probed_norms")
    X = network.start(stream, draw)
    for number in range(1, depth + 1):
        (operator,) = network.layer(stream, draw, number).fixed or ()
        X = operator.on_split(X).levelled()
    start = X.rest.T @ X.rest + network.n * np.outer(X.mean, X.mean)
    found = np.empty((weight_draws, depth))
    for which in range(weight_draws):

        def weights(number: int, which: int = which) -> np.ndarray:
            return network.value_weights(stream, draw, number, again=which)

        before = _chain(start, [weights(number).T for number in range(1, depth)], 2 * X.log_scale)
        after = _chain(np.eye(network.width), [weights(number) for number in range(depth, 1, -1)], 0.0)
        found[which] = np.array(before) + np.array(after)[::-1]
    return found


def _chain(gram: np.ndarray, factors: list[np.ndarray], log: float) -> list[float]:
    """ln tr of G, F_1 G F_1^T, F_2 F_1 G F_1^T F_2^T, ...; -inf where it is zero."""
    found = []
    for factor in [None, *factors]:
        gram = gram if factor is None else factor @ gram @ factor.T
        size = float(np.trace(gram))
        log = log + math.log(size) if size > 0 else -math.inf
        gram = gram / size if size > 0 else gram
        found.append(log)
    return found


def probed_norms(
    network: Network, stream: Stream, draw: int, depth: int, *, probes: int = 4, weights: Sequence[str] = ("value",)
) -> dict[str, np.ndarray]:
    """Unbiased estimates of ||dX_L/dW_l||_F^2 by kind of weights, one row a Gaussian cotangent: (probes, depth).

    weights: of "value", "output", "query", "key", and "tokens" for the tokens before layer l. The mean over probes is the
    estimate, their standard deviation over sqrt(probes) its error.
    """
    found = {name: np.empty((probes, depth)) for name in weights}
    for probe in range(probes):
        G = gaussian_cotangent(network, stream, draw, probe)
        for number, squares in _squares(network, stream, draw, depth, G, weights):
            for name, square in squares.items():
                found[name][probe, number - 1] = square
    return found


def gaussian_cotangent(network: Network, stream: Stream, draw: int, probe: int) -> np.ndarray:
    """G (n, width) of iid N(0, 1) entries."""
    here = stream.within(f"network/width={network.width}/n={network.n}")
    drawn = kernels_for(CPU).variates(here.words(f"cotangent {probe}", draw), 0, network.n, network.width)
    return drawn.astype(np.float64)


def exact_norms(
    network: Network, stream: Stream, draw: int, depth: int, *, weights: Sequence[str] = ("value",)
) -> dict[str, np.ndarray]:
    """||dX_L/dW_l||_F^2 for l = 1, ..., depth, (depth,), from all n d unit cotangents: for small n."""
    total = {name: np.zeros(depth) for name in weights}
    for entry in range(network.n * network.width):
        G = np.zeros((network.n, network.width))
        G.flat[entry] = 1.0
        for number, squares in _squares(network, stream, draw, depth, G, weights):
            for name, square in squares.items():
                total[name][number - 1] += square
    return total


def _squares(
    network: Network, stream: Stream, draw: int, depth: int, G: np.ndarray, weights: Sequence[str]
) -> Iterator[tuple[int, dict[str, float]]]:
    for number, gradients in network_backward(network, stream, draw, depth, G):
        yield number, {name: float(np.sum(getattr(gradients, name) ** 2)) for name in weights}
