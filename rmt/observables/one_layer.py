"""What is measured on one drawn attention matrix, and on the tokens it makes, by the names of the command line."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rmt.arrays import CPU, to_host
from rmt.attention.variants import RUNNING_MEAN_REMOVED, Operator, Variant
from rmt.ensembles.matrix import AttentionMatrix
from rmt.kernels import kernels_for
from rmt.linalg.full_spectrum import singular_values
from rmt.linalg.top_singular import TopSingularValues, top_singular_values
from rmt.observables import tokens
from rmt.observables.eigenvalues import eigenvalues, second_eigenvalue_modulus
from rmt.observables.spectrum import outlier_count
from rmt.streams import Stream

RANKS = 8  # leading singular values reported one by one
MOST_OUTLIERS = 64
SMALLEST_EXCESS = 1e-300  # below this the excess is unknown; its logarithm goes on
ZERO = 1e-7  # a singular value below this is rounding: the ratios of a zero matrix are undefined


def matrix_record(
    matrix: AttentionMatrix, variant: Variant, stream: Stream, draw: int, *, whole: bool, ladder: bool
) -> dict[str, Any]:
    """Singular values of the altered matrix, from the whole spectrum or by Lanczos, and what follows from them.

    whole: every singular value, O(n^3). ladder: no single value leads (a mask): the first eight are reported.
    """
    operator = variant.operate(matrix)
    plain = variant.name == "plain"
    record: dict[str, Any] = {}
    if whole:
        # A - 11^T/n has the exact null vector 1: its zero is known to 1e-7 s2 from the Gram matrix, which is enough here.
        values = singular_values(variant.alter(to_host(matrix.dense())), tolerance=1e-6).values
        record["_spectrum"] = values
        record["singular_value"] = np.pad(values[:RANKS], (0, max(0, RANKS - values.size)), constant_values=np.nan)
    else:
        guess = operator.column_sums if ladder or plain else None
        top = leading(operator, stream, draw, count=RANKS if ladder else 2, start=guess)
        values = np.pad(top.values, (0, max(0, 2 - top.values.size)), constant_values=np.nan)
        record["_residual"] = (top.upper - top.lower) / 2
        record["_missed_above"] = top.missed_above
        if ladder:
            record["singular_value"] = np.pad(top.values, (0, RANKS - top.values.size), constant_values=np.nan)
    first, second = values[0], values[1] if matrix.n > 1 else np.nan
    squared = operator.frobenius_norm_squared
    record |= {
        "top_singular_value": first,
        "second_singular_value": second,
        "spectral_gap": first - second,
        "gap_ratio": second / first if first > ZERO else np.nan,
        "frobenius_norm_squared": squared,
        "attention_stable_rank": squared / first**2 if first > ZERO else np.nan,
    }
    if plain and math.isfinite(matrix.entropy):
        record["attention_entropy"] = matrix.entropy
    return record


def eigenvalue_record(matrix: AttentionMatrix, variant: Variant) -> dict[str, Any]:
    """The two largest moduli, their distance, and all eigenvalues of the altered matrix."""
    found = eigenvalues(to_host(variant.alter(matrix.dense())))
    first, second = float(abs(found[0])), second_eigenvalue_modulus(found)
    return {
        "_eigenvalues": found,
        "top_eigenvalue_modulus": first,
        "second_eigenvalue_modulus": second,
        "eigenvalue_gap": first - second,
    }


def leading(
    operator: Operator, stream: Stream, draw: int, *, count: int, start: np.ndarray | None = None
) -> TopSingularValues:
    """The first singular values of an operator, by Lanczos from a random probe and a guess."""
    words = stream.within("lanczos").words("probe", draw)
    probe = kernels_for(CPU).variates(words, 0, operator.n, 1)
    top = top_singular_values(operator.gram_product, operator.n, probe=probe, count=count, start=start)
    if not top.converged:
        raise ArithmeticError(f"singular values at n = {operator.n}: {top.certificate}")
    return top


def causal_outliers(matrix: AttentionMatrix, stream: Stream, draw: int) -> float:
    """How many singular values of a causal A exceed all of those that are left without its running mean, A - C.

    nan where nothing is left (beta = 0: no noise to stand out of) and where there are more than 64.
    """
    edge = leading(RUNNING_MEAN_REMOVED.operate(matrix), stream, draw, count=1).values[0]
    if edge < ZERO and matrix.n > 1:
        return math.nan
    count = min(RANKS, matrix.n)
    while True:
        values = leading(matrix, stream, draw, count=count, start=matrix.column_sums).values
        if values[-1] <= edge or count == matrix.n:
            return float(outlier_count(values, edge))
        if count >= MOST_OUTLIERS:
            return math.nan
        count = min(2 * count, matrix.n)


def token_record(X: Any) -> dict[str, float]:
    """Ranks and sameness of the tokens after the layer."""
    found = tokens.token_spectrum(X)
    excess = float(tokens.gram_stable_rank_excess(found))
    return {
        "token_stable_rank": float(tokens.token_stable_rank(found)),
        "gram_stable_rank": float(tokens.gram_stable_rank(found)),
        "gram_stable_rank_excess": excess if excess >= SMALLEST_EXCESS else math.nan,
        "log_gram_stable_rank_excess": float(tokens.log_gram_stable_rank_excess(found)),
        "effective_rank": float(tokens.effective_rank(found)),
        "token_cosine": float(tokens.token_cosine(X)),
        "rank_one_residual": float(tokens.rank_one_residual(X)),
    }
