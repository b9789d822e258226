"""The smallest singular value of a large attention Jacobian by products alone: preconditioned LOBPCG, an estimate from above.

One softmax head. With L_i = diag p_i - p_i p_i^T and M_i = V^T L_i the derivative with respect to query and key weights is
dZ_i = c M_i (K dW_Q^T x_i + X dW_K q_i), so, with means over tokens in place of what varies from token to token,
    J J^T ~ (P X)(P X)^T (x) I + I (x) B,   B = c^2 mean_i (|x_i|^2 M_i K K^T M_i^T + |q_i|^2 M_i X X^T M_i^T),
    J^T J ~ X^T X (x) c^2 mean_i K^T M_i^T M_i K   on W_Q,   c^2 mean_i X^T M_i^T M_i X (x) Q^T Q   on W_K,
            (P X)^T (P X) (x) I   on W_V.
Both are inverted in closed form and serve as preconditioners. At n = 64, width 128, d = 16 the estimate is within 0.1 % of the
dense value (46 % above it with J_V J_V^T alone); at n = 24, width 10, d = 4, where J has more rows than columns, 29 % above it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from rmt.attention.jacobian import AttentionJacobian

__all__ = ["smallest_by_products"]

ITERATIONS, FEWEST = 80, 20  # up to 1024 tokens; beyond, in inverse proportion to them
GUESSES = 6  # vectors that LOBPCG moves together
SAMPLED = 32  # tokens whose blocks make the means

Map = Callable[[np.ndarray], np.ndarray]


def smallest_by_products(jacobian: AttentionJacobian, start: np.ndarray, nonzero: int) -> float:
    """An upper bound, meant to be close, of the `nonzero`-th singular value of one head on tokens of full column rank."""
    rows, columns = jacobian.shape
    iterations = max(FEWEST, min(ITERATIONS, ITERATIONS * 1024 // len(jacobian.tokens)))
    if nonzero == rows:
        inverse = _left_preconditioner(jacobian)
        return _lobpcg(lambda x: jacobian.matvec(jacobian.rmatvec(x)), rows, start, inverse, iterations)
    project = _without_gauge(jacobian)
    inverse = _right_preconditioner(jacobian)
    return _lobpcg(
        lambda x: project(jacobian.rmatvec(jacobian.matvec(project(x)))),
        columns,
        start,
        lambda x: project(inverse(project(x))),
        iterations,
    )


def _left_preconditioner(jacobian: AttentionJacobian) -> Map:
    """Inverse of (P X)(P X)^T (x) I + I (x) B on stacks (k, n e); nothing for attention without softmax rows on tokens."""
    means = _means(jacobian)
    if means is None:
        return lambda x: x
    n, width = jacobian.heads[0].output.shape
    image = jacobian.heads[0].attention @ jacobian.tokens
    U, S, _ = np.linalg.svd(image, full_matrices=True)
    square = np.zeros(n)
    square[: S.size] = S**2
    spread, basis = np.linalg.eigh(means[0])
    weight = square[:, None] + spread
    weight = 1 / np.maximum(weight, weight.max() * 1e-14)
    return lambda x: (U @ (weight * (U.T @ x.reshape(-1, n, width) @ basis)) @ basis.T).reshape(x.shape)


def _right_preconditioner(jacobian: AttentionJacobian) -> Map:
    """Inverse of the block-diagonal approximation of J^T J on stacks (k, columns)."""
    means = _means(jacobian)
    if means is None:
        return lambda x: x
    _, query_side, key_side = means
    X, (W_Q, _, W_V) = jacobian.tokens, (jacobian.weights.query, jacobian.weights.key, jacobian.weights.value)
    image, Q = jacobian.heads[0].attention @ X, X @ W_Q
    inverses = [
        (_inverse(X.T @ X), _inverse(query_side)),
        (_inverse(key_side), _inverse(Q.T @ Q)),
        (_inverse(image.T @ image), np.eye(W_V.shape[1])),
    ]

    def apply(x: np.ndarray) -> np.ndarray:
        parts = np.split(x, [W_Q.size, 2 * W_Q.size], axis=-1)
        solved = [
            (left @ part.reshape(len(x), left.shape[0], -1) @ right).reshape(len(x), -1)
            for part, (left, right) in zip(parts, inverses, strict=True)
        ]
        return np.concatenate(solved, axis=-1)

    return apply


def _inverse(matrix: np.ndarray) -> np.ndarray:
    values, basis = np.linalg.eigh(matrix)
    return (basis / np.maximum(values, values[-1] * 1e-12)) @ basis.T


def _means(jacobian: AttentionJacobian) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """B (e, e), c^2 mean K^T M^T M K (d, d) and c^2 mean X^T M^T M X (width, width), from some of the tokens."""
    P = jacobian.heads[0].attention
    if P is None or jacobian.attention.kind == "nystrom":
        return None
    X, weights = jacobian.tokens, jacobian.weights
    Q, K, V = X @ weights.query, X @ weights.key, X @ weights.value
    factor = jacobian.attention.score_scale(Q.shape[1]) ** 2
    B, query_side, key_side = (np.zeros((size, size)) for size in (V.shape[1], K.shape[1], X.shape[1]))
    chosen = np.unique(np.linspace(0, len(X) - 1, SAMPLED).astype(int))
    for i in chosen:
        M = (V - P[i] @ V).T * P[i]  # V^T L, as (diag p - p p^T) V = p * (V - p V)
        by_key, by_token = M @ K, M @ X
        B += (X[i] @ X[i]) * by_key @ by_key.T + (Q[i] @ Q[i]) * by_token @ by_token.T
        query_side += by_key.T @ by_key
        key_side += by_token.T @ by_token
    share = factor / len(chosen)
    return share * B, share * query_side, share * key_side


def _without_gauge(jacobian: AttentionJacobian) -> Map:
    """Projection away from (W_Q G, -W_K G^T): W_Q^T W_Q G + G W_K^T W_K = W_Q^T A - B^T W_K (Sylvester) gives the nearest G."""
    from scipy.linalg import solve_sylvester

    W_Q, W_K = jacobian.weights.query, jacobian.weights.key
    if "gauge" not in jacobian.null_spaces():
        return lambda x: x
    left, right = W_Q.T @ W_Q, W_K.T @ W_K

    def one(x: np.ndarray) -> np.ndarray:
        A, B = x[: W_Q.size].reshape(W_Q.shape), x[W_Q.size : 2 * W_Q.size].reshape(W_K.shape)
        return x - jacobian.gauge_vector([solve_sylvester(left, right, W_Q.T @ A - B.T @ W_K)])

    return lambda stack: np.stack([one(x) for x in stack])


def _lobpcg(gram: Map, size: int, start: np.ndarray, precondition: Map, iterations: int) -> float:
    """sqrt of the smallest Ritz value; `gram` and `precondition` act on stacks (k, size)."""
    from scipy.sparse.linalg import LinearOperator, lobpcg

    def operator(stacked: Map) -> LinearOperator:
        return LinearOperator(
            (size, size),
            matvec=lambda v: stacked(v.reshape(1, size))[0],
            matmat=lambda V: stacked(V.T).T,
            dtype=np.float64,
        )

    count = min(GUESSES, max(1, size // 5))
    guesses = precondition(start[: count * size].reshape(count, size))
    guesses /= np.linalg.norm(guesses, axis=1, keepdims=True)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", UserWarning
        )  # it says that it stopped early: its value is an upper bound anyway
        values, _ = lobpcg(
            operator(gram), guesses.T, M=operator(precondition), largest=False, tol=1e-8, maxiter=iterations
        )
    return float(np.sqrt(max(values.min(), 0.0)))
