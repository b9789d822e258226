"""Causal attention less its uniform part: the projected ladder, exact norms, and samples."""

import math

import numpy as np
import pytest

from rmt.laws.causal import CausalLaw
from rmt.laws.causal_centred import CentredCausalLaw
from rmt.theorems.causal import causal_predictions
from rmt.theorems.causal_centred import causal_centred_predictions
from rmt.theorems.width import OneLayer, width_predictions


def uniform_mean(n):
    return np.tril(np.ones((n, n))) / np.arange(1, n + 1)[:, None]


@pytest.mark.parametrize("centred", ["keys", "queries"])
def test_without_noise_only_the_projected_ladder_is_left(centred):
    """numpy: singular values of C - J and (I - J) C, n = 400; blocks keep them to half a percent."""
    C, n = uniform_mean(400), 400
    exact = np.linalg.svd(C - (1 / n if centred == "keys" else C.mean(axis=0)), compute_uv=False)[:5]
    assert CentredCausalLaw(n, 0.02, None, centred).top_value(np.arange(1, 6)) == pytest.approx(exact, rel=0.005)


def test_the_ladder_left_has_two_fixed_ends():
    """Closed form: w l + phi(w) = k pi with the phase phi of C, whose rungs have w l + phi(w) = k pi - arctan(2 w); n = 700.

    Measured 0.01-0.025 in phi of 1.4 to 3.2. Control: with the end of C the phases are 0.9 and more apart.
    """
    n, k = 700, np.arange(1, 9)
    C, length = uniform_mean(n), math.log(n)
    fixed, free = (np.sqrt(np.linalg.svd(m, compute_uv=False)[:8] ** -2 - 0.25) for m in (C - 1 / n, C))
    wanted = (k * math.pi - np.arctan(2 * free) - free * length)[1:6]
    assert np.interp(free[1:6], fixed, k * math.pi - fixed * length) == pytest.approx(wanted, abs=0.04)
    wrong = np.interp(free[1:6], fixed, k * math.pi - np.arctan(2 * fixed) - fixed * length)
    assert np.all(wanted - wrong > 0.5)


def test_norms_are_those_of_rows():
    """Exact for any row-stochastic A: ||A - J||_F^2 = ||A||_F^2 - 1; ||(I - J) A||_F^2 against numpy, iid rows of 4000 draws."""
    plain = CausalLaw(200, 0.7).frobenius_norm_squared
    assert CentredCausalLaw(200, 0.7, None, "keys").frobenius_norm_squared == pytest.approx(plain - 1, rel=1e-12)
    rng, squares = np.random.default_rng(2), []
    for _ in range(4000):
        A = np.tril(np.exp(0.5 * rng.standard_normal((12, 12))))
        A /= A.sum(axis=1, keepdims=True)
        squares.append(np.sum((A - A.mean(axis=0)) ** 2))
    law, error = CentredCausalLaw(12, 0.5, None, "queries"), np.std(squares) / math.sqrt(4000)
    assert abs(np.mean(squares) - law.frobenius_norm_squared) < 5 * error + 1e-3
    without = (
        law.frobenius_norm_squared + float(np.sum(law.plain.row_variance(np.arange(1, 13)) / np.arange(1, 13))) / 12
    )
    assert abs(np.mean(squares) - without) > 10 * error  # control: the noise of the mean row left in


def test_ranges_are_named():
    for n, beta, head_dim, rule in (
        (100, 0.5, None, "n >= 128"),
        (300, 1.2, None, "beta = 1.2"),
        (300, 0.9, 16, ".85"),
    ):
        found = causal_centred_predictions(n, beta, head_dim=head_dim, variant="centred")
        assert found["top_singular_value"].value is None and rule in found["top_singular_value"].validity
        assert found["frobenius_norm_squared"].in_range
    assert causal_centred_predictions(300, 0.0, variant="centred")["gap_ratio"].value is None
    with pytest.raises(ValueError, match="centred rows"):
        CentredCausalLaw(300, 0.5, None, "rows")


def test_the_oracle_of_many_tokens_leaves_the_equations_out():
    one = OneLayer(n=5000, model="iid", beta=0.5, mask="causal", variant="outlier_removed", width=64, value_width=64)
    found = width_predictions(one, equations_up_to=512)
    assert "causal equations" in found["top_singular_value"].validity and found["frobenius_norm_squared"].in_range


@pytest.mark.slow
@pytest.mark.parametrize("beta, head_dim", [(0.5, None), (1.0, 64)])
@pytest.mark.parametrize("variant", ["outlier_removed", "centred"])
def test_bands_hold_a_sample(beta, head_dim, variant):
    """numpy, 60 draws, n = 256: medians of eight values within bands and 5 standard errors of a median (6e-7 a value).

    Negative control: the ladder of A itself is missed in s_1 and s_2.
    """
    rng, n, draws = np.random.default_rng([8, head_dim or 0]), 256, []
    for _ in range(60):
        logits = rng.standard_normal((n, n))
        if head_dim:
            logits = rng.standard_normal((n, head_dim)) @ rng.standard_normal((head_dim, n)) / math.sqrt(head_dim)
        A = np.tril(np.exp(beta * logits))
        A /= A.sum(axis=1, keepdims=True)
        B = A - (1 / n if variant == "outlier_removed" else A.mean(axis=0))
        draws.append(np.linalg.svd(B, compute_uv=False)[:8])
    middle, slack = np.median(draws, axis=0), 5 * 1.25 * np.std(draws, axis=0) / math.sqrt(60)
    said = causal_centred_predictions(n, beta, head_dim=head_dim, variant=variant)["singular_value"]
    plain = causal_predictions(n, beta, model="keyquery" if head_dim else "iid", head_dim=head_dim)["singular_value"]
    for rank in range(1, 9):
        low, high = said[rank].band
        assert low - slack[rank - 1] < middle[rank - 1] < high + slack[rank - 1], rank
    assert all(plain[rank].band[0] - slack[rank - 1] > middle[rank - 1] for rank in (1, 2))
