"""The closed forms of causal attention against the causal equations, and the mean cosine against its limit and sampling."""

import numpy as np
import pytest

from rmt.theorems.causal import causal_predictions
from rmt.theorems.causal_ladder import causal_cosine, causal_entropy, ladder_predictions


@pytest.mark.parametrize("n, beta", [(300, 0.5), (1000, 1.0)])
def test_the_first_rungs_and_the_count_are_those_of_the_equations(n, beta):
    quick, full = ladder_predictions(n, beta), causal_predictions(n, beta)
    for name, error in (
        ("top_singular_value", 0.005),
        ("second_singular_value", 0.01),
        ("frobenius_norm_squared", 1e-9),
    ):
        assert quick[name].value == pytest.approx(full[name].value, rel=error)
    assert quick["outlier_count"].value == pytest.approx(full["outlier_count"].value, abs=0.4)
    removed = ladder_predictions(n, beta, variant="running_mean_removed")["top_singular_value"]
    exact = causal_predictions(n, beta, variant="running_mean_removed")["top_singular_value"]
    assert removed.value == pytest.approx(exact.value, rel=0.05)


def test_the_ladder_grows_with_n_and_ends():
    counts = [ladder_predictions(n, 1.0)["outlier_count"].value for n in (10**3, 10**5, 10**7)]
    assert counts[0] < counts[1] < counts[2] < 10
    assert ladder_predictions(10**9, 1.0)["top_singular_value"].value is None
    assert ladder_predictions(1000, 1.2)["top_singular_value"].value is None
    assert ladder_predictions(1000, 1.0)["singular_value"][3].value is None


def test_mean_cosine():
    """Limit 2/3 at beta = 0; numpy: 30 draws of n = 250 at beta = .5, standard error .004, 5.3 of them and the band."""
    assert causal_cosine(10**6, 0.0, width=64)["token_cosine"].value == pytest.approx(2 / 3, abs=1e-3)
    rng = np.random.default_rng(0)
    n, found = 250, []
    for _ in range(30):
        A = np.tril(np.exp(0.5 * rng.standard_normal((n, n))))
        G = (A / A.sum(axis=1, keepdims=True)) @ rng.standard_normal((n, 4000))
        G /= np.linalg.norm(G, axis=1, keepdims=True)
        found.append((np.sum(G.sum(axis=0) ** 2) - n) / (n * (n - 1)))
    assert np.mean(found) == pytest.approx(causal_cosine(n, 0.5, width=64)["token_cosine"].value, abs=0.02)
    assert causal_cosine(250, 1.0, width=64)["token_cosine"].value is None


def test_mean_entropy_of_causal_rows():
    """Uniform rows: ln n!/n by Stirling as beta -> 0. numpy: 40 draws of n = 120 at beta = .7, standard error .0006."""
    n = 120
    exact = sum(np.log(np.arange(1, n + 1))) / n
    assert causal_entropy(n, 0.01)["attention_entropy"].value == pytest.approx(exact, abs=1e-3)
    rng, found = np.random.default_rng(0), []
    for _ in range(40):
        A = np.tril(np.exp(0.7 * rng.standard_normal((n, n))))
        A /= A.sum(axis=1, keepdims=True)
        some = A[A > 0]
        found.append(-np.sum(some * np.log(some)) / n)
    told = causal_entropy(n, 0.7)["attention_entropy"].value
    assert np.mean(found) == pytest.approx(told, abs=0.004)
    assert causal_entropy(10**7, 0.7)["attention_entropy"].value is None
