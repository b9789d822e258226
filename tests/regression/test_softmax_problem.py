"""The problem of softmax regression: what it refuses, and what whitening keeps."""

import numpy as np
import pytest

from rmt.regression.softmax_problem import Contexts, SoftmaxRegression, covariance_matrix, regression_problem
from rmt.regression.softmax_start import equivariant_start, spectral_start
from rmt.regression.softmax_weights import Weights


@pytest.mark.parametrize("spectrum", ["geometric", "power"])
@pytest.mark.parametrize("condition", [1.0, 10.0, 500.0])
def test_covariances_have_the_condition_number_and_trace_asked_for(spectrum, condition):
    values = np.linalg.eigvalsh(covariance_matrix(6, spectrum, condition))
    assert values[-1] / values[0] == pytest.approx(condition) and values.sum() == pytest.approx(6)


def test_the_whitened_target_is_the_same_for_every_covariance():
    first, second = (regression_problem(covariance_matrix(5, "power", c), [1, 0.5, 0.2]) for c in (1.0, 300.0))
    assert np.allclose(first.whitened_target, second.whitened_target, rtol=0, atol=1e-12)
    assert np.allclose(first.singular_values, [1, 0.5, 0.2], rtol=1e-12)


def test_the_spectral_start_of_plenty_of_data_is_a_minimum():
    """With exactly white data (orthogonal tokens) the start fits the target without error."""
    problem = regression_problem(np.eye(4), [1, 0.6, 0.4, 0.2])
    tokens = np.linalg.qr(np.random.default_rng(0).standard_normal((50, 4)))[0] * np.sqrt(50)
    whitened = problem.whiten(spectral_start(problem.respond(tokens[None]), tau=3.0))
    assert np.allclose(whitened.value @ whitened.score.T, problem.whitened_target, atol=1e-12)
    assert np.allclose(whitened.value.T @ whitened.value, 9 * whitened.score.T @ whitened.score, atol=1e-12)


def test_an_equivariant_start_is_the_same_in_whitened_coordinates():
    rng = np.random.default_rng(1)
    normals = Weights(rng.standard_normal((2, 3)), rng.standard_normal((3, 3)))
    problem = regression_problem(covariance_matrix(3, "geometric", 40.0), [1, 0.5])
    whitened = problem.whiten(equivariant_start(problem, normals, scale=0.5))
    assert (whitened - 0.5 * normals).norm < 1e-13


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: SoftmaxRegression(np.diag([1.0, 0.0]), np.eye(2)), "singular"),
        (lambda: SoftmaxRegression(np.array([[1.0, 2.0], [0.0, 1.0]]), np.eye(2)), "symmetric"),
        (lambda: SoftmaxRegression(np.diag([1.0, np.nan]), np.eye(2)), "not finite"),
        (lambda: SoftmaxRegression(np.eye(2), np.array([[1.0, np.nan], [0.0, 1.0]])), "not finite"),
        (lambda: SoftmaxRegression(np.eye(2), np.ones((3, 2))), "p <= d"),
        (lambda: SoftmaxRegression(np.eye(2), np.ones((2, 2))), "row rank"),
        (lambda: SoftmaxRegression(np.eye(3), np.eye(2)), "expected"),
        (lambda: SoftmaxRegression(np.eye(2), np.eye(2), noise=-1.0), "noise"),
        (lambda: regression_problem(np.eye(2), [1, 0.5, 0.2]), "p <= d"),
        (lambda: regression_problem(np.eye(2), [1, -0.5]), "positive"),
        (lambda: covariance_matrix(3, "geometric", 0.5), "at least 1"),
        (lambda: covariance_matrix(3, "cubic", 2.0), "geometric, power"),
        (lambda: covariance_matrix(3, "missing.npy"), "cannot be read"),
        (lambda: Contexts(np.zeros((1, 3, 2)), np.zeros((1, 4, 2))), "do not fit"),
        (lambda: Contexts(np.full((1, 3, 2), np.inf), np.zeros((1, 3, 2))), "not finite"),
        (
            lambda: (
                Contexts(np.eye(2)[None], np.eye(2)[None]).least_squares()
                and spectral_start(Contexts(np.ones((1, 2, 3)), np.ones((1, 2, 1))))
            ),
            "n < d",
        ),
        (lambda: spectral_start(Contexts(np.ones((1, 9, 3)), np.ones((1, 9, 1)))), "singular"),
    ],
)
def test_what_has_no_meaning_is_refused_in_one_line(make, words):
    with pytest.raises(ValueError, match=words) as refusal:
        make()
    assert "\n" not in str(refusal.value)


def test_a_covariance_is_read_from_a_file_of_it_or_of_tokens(tmp_path):
    np.save(tmp_path / "good.npy", np.diag([1.0, 2.0]))
    np.save(tmp_path / "bad.npy", np.diag([1.0, np.nan]))
    (tmp_path / "text.npy").write_text("no array")
    tokens = np.random.default_rng(0).standard_normal((9, 2))
    np.save(tmp_path / "tokens.npy", tokens)
    np.save(tmp_path / "holes.npy", np.where(tokens > 1, np.nan, tokens))
    np.save(tmp_path / "flat.npy", tokens[:, :1] * [1.0, 2.0])
    np.save(tmp_path / "words.npy", np.array([["a", "b"], ["c", "d"]]))
    assert np.array_equal(covariance_matrix(2, str(tmp_path / "good.npy")), np.diag([1.0, 2.0]))
    assert np.allclose(covariance_matrix(2, str(tmp_path / "tokens.npy")), tokens.T @ tokens / 9, rtol=1e-14)
    for name, width, words in [
        ("bad", 2, "not finite"),
        ("good", 3, "width"),
        ("text", 2, "cannot be read"),
        ("holes", 2, "not finite"),
        ("flat", 2, "singular"),
        ("words", 2, "real number"),
    ]:
        with pytest.raises(ValueError, match=words):
            covariance_matrix(width, str(tmp_path / f"{name}.npy"))
