"""The leading singular values of attention from given queries and keys, without its n x n matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rmt.laws.law import Array


@dataclass(frozen=True, eq=False)
class LeadingValues:
    """What `leading_values` found.

    singular_values: the typical 2nd, 3rd, ... singular values of A, descending, at most d_k; top: the first.
    row_variance: sigma_n^2 over the rows looked at; slope: of n A_ij - 1 on the centred logits; noise: alpha^2, the
    variance that this slope leaves; stderr: relative standard error of row_variance from looking at few rows.
    """

    top: float
    singular_values: Array
    row_variance: float
    slope: float
    noise: float
    stderr: float


def leading_values(queries: ArrayLike, keys: ArrayLike, *, rows: int = 64, scale: float | None = None) -> LeadingValues:
    """Singular values of A = softmax(scale Q K^T), scale = 1/sqrt(d_k) by default; Q, K (n, d_k).

    1. t_k = slope^2 scale^2/n times the eigenvalues of (Q_c^T Q_c)(K_c^T K_c), from two d_k x d_k Gram matrices: the part of
       n A - 1 that is linear in the logits; Q_c, K_c centred over tokens.
    2. slope, sigma_n^2 and the noise alpha^2 = sigma_n^2 - (variance explained) from evenly spaced rows.
    3. n s_k^2 = t_k (1 - alpha^2 m(t_k))^2, m(w) = (1/n)[sum_(j != k) 1/(t_j - w) - (n - d_k)/w]: noise pushes up what is linear
       (derived; outliers of information plus noise).
    top: s_1^2 = 1 + sigma_n^2/n + relative variance over keys of e^(v_j/2), v_j the variance over queries of the logits of
       key j: column means of A.

    Measured: n = 500 to 1500, d_k = 32, 64, isotropic and power-law tokens, beta .3 to 1, first six values: within 2.5 %; s_1 to
    5e-4 (beta <= .7). Values that do not stand clear of the noise, t_k <= alpha^2, are left out. Cost O(n d_k^2 + rows n d_k).
    """
    q, k = np.asarray(queries, float), np.asarray(keys, float)
    if q.shape != k.shape or q.ndim != 2 or len(q) < 2:
        raise ValueError(f"queries {q.shape} and keys {k.shape}: give two (n, d_k) arrays, n >= 2")
    if not (np.isfinite(q).all() and np.isfinite(k).all()):
        raise ValueError("queries or keys hold NaN or infinity: give finite ones")
    if rows < 1:
        raise ValueError(f"rows = {rows}: look at one row at least")
    n, head_dim = q.shape
    factor = 1 / math.sqrt(head_dim) if scale is None else scale
    looked = np.unique(np.linspace(0, n - 1, min(rows, n)).round().astype(int))
    mean_key = k.mean(axis=0)
    squares, explained, cross, power = [], [], 0.0, 0.0
    for row in looked:  # one at a time: O(n) memory
        logits = factor * (k @ q[row])
        weights = np.exp(logits - logits.max())
        weights *= n / weights.sum()
        centred = logits - factor * float(mean_key @ q[row])
        squares.append(float(np.mean(weights**2)) - 1)
        cross += float(centred @ (weights - 1))
        power += float(centred @ centred)
        explained.append(float(centred @ centred) / n)
    if power == 0:
        raise ValueError("all logits of a row are equal: attention is uniform, its other singular values are 0")
    slope, variance = cross / power, float(np.mean(squares))
    noise = max(variance - slope**2 * float(np.mean(explained)), 0.0)
    centred_q, centred_k = q - q.mean(axis=0), k - mean_key
    root = np.linalg.cholesky(centred_q.T @ centred_q / n + 1e-12 * np.eye(head_dim))
    gram = root.T @ (centred_k.T @ centred_k / n) @ root
    t = np.sort(np.linalg.eigvalsh(gram))[::-1] * (slope * factor) ** 2 * n
    clear = t > noise
    found = []
    for index in np.flatnonzero(clear):
        others = np.delete(t, index)
        gap = np.where(others == t[index], np.inf, others - t[index])
        m = (np.sum(1 / gap) - (n - head_dim) / t[index]) / n
        found.append(math.sqrt(max(t[index] * (1 - noise * m) ** 2, 0.0) / n))
    count = looked.size
    energy = factor**2 * np.einsum("na,ab,nb->n", centred_k, centred_q.T @ centred_q / n, centred_k)
    column = np.exp((energy - energy.max()) / 2)
    effect = float(np.var(column) / np.mean(column) ** 2)
    return LeadingValues(
        top=math.sqrt(1 + effect + variance / n),
        singular_values=np.sort(np.array(found))[::-1],
        row_variance=variance,
        slope=slope,
        noise=noise,
        stderr=float(np.std(squares, ddof=1) / math.sqrt(count) / variance) if count > 1 else math.inf,
    )
