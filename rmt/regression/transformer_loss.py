"""Squared loss of a transformer, Phi = |F - Y|^2/2, with its exact first and second derivatives and its tangent kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse.linalg

from rmt.regression.transformer_layer import LayerTrace, backward, forward
from rmt.regression.transformer_model import TransformerWeights

_COMPLEX_STEP = 1e-30
_EXPLICIT = 512  # outputs up to which the Jacobian is formed


@dataclass(frozen=True, eq=False)
class SquaredLoss:
    """Phi = |F - Y|^2/2 on tokens X (batch, n, width) with targets Y shaped like F."""

    X: np.ndarray
    Y: np.ndarray

    def __post_init__(self) -> None:
        if self.X.ndim != 3 or len(self.Y) != len(self.X) or self.Y.ndim not in (2, 3):
            raise ValueError(
                f"tokens {self.X.shape} and targets {self.Y.shape} do not fit; expected (batch, n, width) and "
                "(batch, n, outputs), or (batch, outputs) for pooled tokens"
            )

    def value(self, weights: TransformerWeights) -> float:
        """Phi."""
        return 0.5 * float(np.sum((outputs(weights, self.X) - self.Y) ** 2))

    def value_and_gradient(self, weights: TransformerWeights) -> tuple[float, TransformerWeights]:
        """Phi and its gradient, in one pass forwards and one backwards."""
        seen, F = trace(weights, self.X)
        error = F - self.Y
        return float(0.5 * np.sum(error * error).real), weights.like(pull_back(weights, seen, error))

    def hessian_product(self, weights: TransformerWeights, direction: np.ndarray) -> np.ndarray:
        """The second derivative applied to a direction (size,): the gradient after a complex step, exact to rounding."""
        moved = weights.like(weights.entries + 1j * _COMPLEX_STEP * direction)
        return self.value_and_gradient(moved)[1].entries.imag / _COMPLEX_STEP

    def sharpness(self, weights: TransformerWeights, *, tolerance: float = 1e-3) -> float:
        """Largest eigenvalue of the second derivative, by Lanczos from the gradient."""
        start = self.value_and_gradient(weights)[1].entries
        operator = _operator(len(start), lambda v: self.hessian_product(weights, v))
        return _top(operator, tolerance=tolerance, start=start)


def trace(weights: TransformerWeights, X: np.ndarray) -> tuple[list[LayerTrace], np.ndarray]:
    """What every layer saw, and the outputs F."""
    seen: list[LayerTrace] = []
    for layer in weights.layers:
        seen.append(forward(weights.model, layer, seen[-1].H if seen else X))
    last = seen[-1].H
    return seen, (last.mean(axis=-2) if weights.model.pooled else last) @ weights.readout


def outputs(weights: TransformerWeights, X: np.ndarray) -> np.ndarray:
    """F, (batch, n, outputs), or (batch, outputs) for pooled tokens."""
    return trace(weights, X)[1]


def pull_back(weights: TransformerWeights, seen: list[LayerTrace], dF: np.ndarray) -> np.ndarray:
    """J^T dF, (..., size), for cotangents dF with any leading axes before the shape of F."""
    model, last = weights.model, seen[-1].H
    if model.pooled:
        readout = last.mean(axis=-2).T @ dF
        dH = (
            np.broadcast_to((dF @ weights.readout.T)[..., None, :], (*dF.shape[:-1], *last.shape[-2:])) / last.shape[-2]
        )
    else:
        rows = last.reshape(-1, model.width)
        readout = rows.T @ dF.reshape(*dF.shape[: dF.ndim - 3], len(rows), model.outputs)
        dH = dF @ weights.readout.T
    blocks = [readout]
    for layer, one in zip(reversed(weights.layers), reversed(seen), strict=True):
        dH, matrices = backward(model, layer, one, dH)
        blocks = [*matrices, *blocks]
    lead = readout.shape[:-2]
    return np.concatenate([block.reshape(*lead, -1) for block in blocks], axis=-1)


def push_forward(weights: TransformerWeights, X: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """J direction, shaped like F, by a complex step: exact to rounding."""
    moved = weights.like(weights.entries + 1j * _COMPLEX_STEP * direction)
    return outputs(moved, X).imag / _COMPLEX_STEP


def tangent_gram(weights: TransformerWeights, X: np.ndarray) -> np.ndarray:
    """J J^T, (outputs, outputs) over all entries of F: the tangent kernel on the data."""
    seen, F = trace(weights, X)
    unit = np.eye(F.size).reshape(F.size, *F.shape)
    J = pull_back(weights, seen, unit)
    return J @ J.T


def tangent_extremes(
    weights: TransformerWeights, X: np.ndarray, *, explicit: bool | None = None
) -> tuple[float, float]:
    """(smallest, largest) eigenvalue of J J^T: explicit up to 512 outputs, beyond by Lanczos on products alone.

    The smallest one by Lanczos is an upper bound that converges slowly where J J^T is badly conditioned.
    """
    operator = _tangent_operator(weights, X)
    if explicit if explicit is not None else operator.shape[0] <= _EXPLICIT:
        values = np.linalg.eigvalsh(tangent_gram(weights, X))
        return float(values[0]), float(values[-1])
    high = tangent_largest(weights, X)
    flipped = _operator(operator.shape[0], lambda v: high * v - operator.matvec(v))
    return max(high - _top(flipped, tolerance=1e-10, basis=64), 0.0), high


def tangent_largest(weights: TransformerWeights, X: np.ndarray, *, tolerance: float = 1e-6) -> float:
    """Largest eigenvalue of J J^T by Lanczos, from products with J and J^T alone."""
    return _top(_tangent_operator(weights, X), tolerance=tolerance)


def _tangent_operator(weights: TransformerWeights, X: np.ndarray) -> scipy.sparse.linalg.LinearOperator:
    seen, F = trace(weights, X)

    def product(v: np.ndarray) -> np.ndarray:
        return push_forward(weights, X, pull_back(weights, seen, v.reshape(F.shape))).ravel()

    return _operator(F.size, product)


def certificate(weights: TransformerWeights, X: np.ndarray) -> float:
    """A lower bound of the smallest eigenvalue of J J^T, one layer without normalisation on one sequence (n <= width).

    s_min(H)^2 + s_min(phi(Z W_1))^2 s_min(W_U)^2, from W_U and W_2 alone: J J^T >= J_U J_U^T + J_2 J_2^T, J_U = H (x) I and
    J_2 = phi (x) W_U^T. Zero where a factor has fewer columns than rows.
    """
    model = weights.model
    if model.depth > 1 or model.norm != "none" or model.pooled or len(X) != 1:
        raise ValueError(
            "the certificate is derived for one layer, one sequence, no norm and no pooling; use tangent_extremes"
        )
    seen = trace(weights, X)[0][0]
    return _least(seen.H[0]) ** 2 + (_least(seen.units[0]) * _least(weights.readout.T)) ** 2


def _least(matrix: np.ndarray) -> float:
    """Smallest singular value over the row space: zero for more rows than columns."""
    if matrix.shape[0] > matrix.shape[1]:
        return 0.0
    return float(np.linalg.svd(matrix, compute_uv=False)[-1])


def _operator(size: int, product: Callable[[np.ndarray], np.ndarray]) -> scipy.sparse.linalg.LinearOperator:
    return scipy.sparse.linalg.LinearOperator((size, size), matvec=product, dtype=np.float64)


def _top(
    operator: scipy.sparse.linalg.LinearOperator, *, tolerance: float, basis: int = 12, start: np.ndarray | None = None
) -> float:
    """Largest eigenvalue of a symmetric operator, always from the same start."""
    size = operator.shape[0]
    if size <= basis:
        return float(np.linalg.eigvalsh(operator.matmat(np.eye(size)))[-1])
    start = np.cos(np.arange(size)) if start is None or not start.any() else start
    found = scipy.sparse.linalg.eigsh(
        operator, k=1, which="LA", v0=start, tol=tolerance, ncv=basis, return_eigenvectors=False, maxiter=1000
    )
    return float(found[0])
