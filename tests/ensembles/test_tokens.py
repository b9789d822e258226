"""Value tokens."""

import numpy as np
import pytest

from rmt.ensembles.tokens import value_tokens
from rmt.streams import stream

SIGMAS = 4.9


def test_gaussian_tokens_are_a_product_of_normals():
    """V = X W has the rank of its inner dimension, here 3."""
    V = value_tokens(stream(0), 0, 600, 3, 40, dtype=np.float64)
    assert V.shape == (600, 40)
    assert np.linalg.matrix_rank(V) == 3


@pytest.mark.parametrize(("tokens", "variance"), [("gaussian", 50), ("orthonormal", 1)])
def test_entry_variance(tokens, variance):
    """E V^2; for X W the relative sd of the mean square is about sqrt(2/n width + 2/width d_v + 2/n d_v)."""
    n, width, value_width = 50, 50, 60
    squares = [np.mean(value_tokens(stream(0), draw, n, width, value_width, tokens=tokens) ** 2) for draw in range(40)]
    error = SIGMAS * np.sqrt(2 / (n * width) + 2 / (width * value_width) + 2 / (n * value_width)) / np.sqrt(40)
    assert np.mean(squares) == pytest.approx(variance, rel=error)
    assert np.mean(squares) != pytest.approx(variance * 1.1, rel=error)


def test_orthonormal_tokens_give_the_law_of_an_explicit_construction():
    """Oracle: X from a QR factorisation times normal W. Fourth moments and ||V V^T||_F^2 agree within 4.9 joint sd."""
    n, width, value_width, draws = 6, 10, 8, 400
    rng = np.random.default_rng(0)

    def explicit():
        X = np.linalg.qr(rng.standard_normal((width, n)))[0].T
        return X @ rng.standard_normal((width, value_width))

    def gram_squares(sample):
        return np.array([np.sum((V @ V.T) ** 2) for V in sample])

    drawn = gram_squares(
        value_tokens(stream(0), draw, n, width, value_width, tokens="orthonormal") for draw in range(draws)
    )
    built = gram_squares(explicit() for _ in range(draws))
    error = SIGMAS * np.sqrt((drawn.var() + built.var()) / draws)
    assert abs(drawn.mean() - built.mean()) < error
    assert not abs(drawn.mean() - 1.3 * built.mean()) < error


def test_workers_and_dtype():
    one = value_tokens(stream(0), 1, 600, 33, 20)
    assert one.dtype == np.float32
    np.testing.assert_array_equal(one, value_tokens(stream(0), 1, 600, 33, 20, workers=3))
    np.testing.assert_allclose(one, value_tokens(stream(0), 1, 600, 33, 20, dtype=np.float64), atol=1e-4)
    assert not np.any(one == value_tokens(stream(0), 2, 600, 33, 20))


def test_more_orthonormal_tokens_than_dimensions():
    with pytest.raises(ValueError, match="n = 11 orthonormal tokens do not fit into width = 10; take n <= width"):
        value_tokens(stream(0), 0, 11, 10, 4, tokens="orthonormal")


def test_unknown_tokens():
    with pytest.raises(ValueError, match="tokens 'spherical' is unknown; choose gaussian or orthonormal"):
        value_tokens(stream(0), 0, 4, 4, 4, tokens="spherical")
