"""Every repair against its formula on dense matrices (algebra, oracle: explicit n x n arrays)."""

import numpy as np
import pytest

from rmt.arrays import CPU
from rmt.attention.directions import leading_directions
from rmt.attention.mixing import Mixing
from rmt.attention.mixture import Mixed
from rmt.attention.repairs import CAUSAL_ONLY, REPAIRS, Circumstances, mixture_of
from rmt.attention.running_mean import running_mean, running_mean_transposed
from rmt.attention.split import split
from rmt.attention.variants import VARIANTS, variant
from rmt.ensembles.markov import MarkovAttention, MarkovRows
from rmt.streams import stream

N, BETA = 70, 0.7


def mixing(mask, name, n=N):
    ensemble = MarkovAttention(n=n, beta=BETA, mask=mask)
    words = stream(3).within(name).words("logits", 0)
    return Mixing(MarkovRows(words, ensemble, np.dtype(np.float64), CPU))


def formula(name, A, B, mask):
    """The altered matrix, written out."""
    n = A.shape[0]
    J, C, eye = np.full((n, n), 1 / n), np.tril(np.ones((n, n))) / np.arange(1, n + 1)[:, None], np.eye(n)
    mean = C if mask == "causal" else J
    sigma, position = np.sqrt(np.expm1(BETA**2)), np.arange(1.0, n + 1)
    gain = np.diag(np.sqrt(position) / sigma)

    def without(vectors):
        return A - vectors @ (vectors.T @ A)

    return {
        "plain": lambda: A,
        "identity": lambda: eye,
        "uniform": lambda: mean,
        "outlier_removed": lambda: A - J,
        "outlier_scaled": lambda: A - 0.7 * J,
        "centred": lambda: (eye - J) @ A,
        "centered_self_attention": lambda: A - J,
        "rescaled": lambda: np.sqrt(n) / sigma * (A - J),
        "differential": lambda: A - 0.4 * B,
        "shaped": lambda: eye + A - mean,
        "value_skipinit": lambda: eye + 0.5 * A,
        "sigma_reparametrised": lambda: A,
        "log_temperature": lambda: A,
        "running_mean_removed": lambda: A - C,
        "identity_plus_centred": lambda: eye + A - mean,
        "late_removed": lambda: np.diag((position > 32) * 1.0) @ (A - C),
        "outliers_removed": lambda: without(np.linalg.svd(A)[0][:, : outliers(A)]),
        "ladder_removed": lambda: without(np.linalg.svd(C)[0][:, :4]),
        "row_gain": lambda: gain @ (A - C),
        "differential_gain": lambda: gain @ (A - B) / np.sqrt(2),
        "two_sided_gain": lambda: np.sqrt(2) / sigma * (A - C) @ np.diag(np.sqrt(position)),
    }[name]()


def outliers(A):
    """How many singular values stand out by a quarter."""
    values = np.linalg.svd(A, compute_uv=False)[:13]
    return int(np.flatnonzero(values[:-1] > 1.25 * values[1:])[-1]) + 1


@pytest.mark.parametrize("mask", ["none", "causal"])
@pytest.mark.parametrize("name", REPAIRS)
def test_every_repair_is_its_formula(name, mask):
    """Products with the repair, with its transpose and with split tokens, to 1e-12 of the largest entry."""
    given = Circumstances(n=N, width=32, beta=BETA, mask=mask, eta=0.3, differential_lambda=0.4)
    if name in CAUSAL_ONLY and mask == "none":
        with pytest.raises(ValueError, match="use mask causal"):
            mixture_of(name, given)
        return
    first, other = mixing(mask, "first"), mixing(mask, "other")
    matrix = formula(name, first.dense(), other.dense(), mask)
    near = 1e-6 if name in ("outliers_removed", "ladder_removed") else 1e-12  # vectors by iteration
    altered = Mixed(mixture_of(name, given), N, first, other)
    V = np.random.default_rng(0).standard_normal((N, 5)) + 3
    scale = max(np.abs(matrix @ V).max(), np.abs(V).max())
    np.testing.assert_allclose(altered.apply(V), matrix @ V, atol=near * scale)
    np.testing.assert_allclose(altered.transposed(V), matrix.T @ V, atol=near * max(scale, np.abs(matrix.T @ V).max()))
    np.testing.assert_allclose(altered.on_split(split(V)).dense(), matrix @ V, atol=near * scale)


@pytest.mark.parametrize("name", VARIANTS)
def test_repairs_and_the_variants_with_closed_spectra_say_the_same(name):
    """Two definitions, one meaning: `variants` alters matrices, `repairs` acts in networks."""
    A = mixing("causal", "first")
    mixed = Mixed(mixture_of(name, Circumstances(n=N, width=32, beta=BETA, mask="causal")), N, A)
    np.testing.assert_allclose(mixed.apply(np.eye(N)), variant(name).alter(A.dense()), atol=1e-13)


def test_one_outlier_stands_out_of_a_large_matrix():
    """n = 200, iid logits, no mask: s_2 lies near the edge of the bulk, and one direction is found, near 1/sqrt(n)."""
    vectors = leading_directions(mixing("none", "first", 200))
    assert vectors.shape == (200, 1)
    assert abs(vectors.sum()) / np.sqrt(200) > 0.99


def test_an_unknown_repair_is_named_with_the_known_ones():
    with pytest.raises(ValueError, match=r"'magic' is unknown: choose from plain"):
        mixture_of("magic", Circumstances(n=4, width=4, beta=1.0))


def test_a_gain_needs_logits_that_vary():
    with pytest.raises(ValueError, match="give beta > 0"):
        mixture_of("rescaled", Circumstances(n=4, width=4, beta=0.0))


def test_running_means_are_the_cesaro_matrix():
    V = np.random.default_rng(1).standard_normal((9, 2))
    C = np.tril(np.ones((9, 9))) / np.arange(1, 10)[:, None]
    np.testing.assert_allclose(running_mean(V), C @ V, rtol=1e-13)
    np.testing.assert_allclose(running_mean_transposed(V), C.T @ V, rtol=1e-13)


@pytest.mark.parametrize("n", [1, 40, 1100])
def test_rows_made_again_and_rows_held_are_the_same(n):
    """n = 1100 is beyond the size up to which a matrix is held; the transposed product is its own oracle's."""
    A = mixing("none", "first", n)
    V = np.random.default_rng(2).standard_normal((n, 3))
    dense = A.dense()
    np.testing.assert_allclose(A.apply(V), dense @ V, rtol=1e-12)
    np.testing.assert_allclose(A.transposed(V), dense.T @ V, rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(A.row_energy, np.sum(dense**2, axis=1), rtol=1e-12)
    assert np.array_equal(Mixing(A.source, workers=2).apply(V), A.apply(V))
