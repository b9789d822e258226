"""Corrections: Theorem 3.5 as an identity, orthonormality, placement, norm preservation, refusals (all algebra)."""

import numpy as np
import pytest

from rmt.attention.corrections import CORRECTIONS, Correction, identity_block, svd_correction
from rmt.attention.jacobian_draws import draw_projections, draw_tokens, normals
from rmt.ensembles.weights import orthonormal
from rmt.observables.conditioning import condition_number, diagonal_attention, pseudo_condition_number
from rmt.streams import stream
from rmt.theorems.conditioning import svd_condition


@pytest.mark.parametrize("rows, columns", [(64, 64), (128, 32), (32, 128)])
@pytest.mark.parametrize("strength", [1.0, 0.5, 3.0])
def test_the_svd_correction_is_an_identity(rows, columns, strength):
    W = normals(stream(1), "W", 0, rows, columns)
    after = condition_number(W + svd_correction(W, strength))
    assert abs(after - svd_condition(float(condition_number(W)), strength=strength)) < 1e-10


def test_orthonormal_columns_and_rows():
    for shape in ((12, 5), (5, 12)):
        Q = orthonormal(normals(stream(2), "Q", 0, *shape))
        gram = Q.T @ Q if shape[0] > shape[1] else Q @ Q.T
        assert Q.shape == shape and np.allclose(gram, np.eye(5), atol=1e-14)


def test_the_identity_of_a_fused_matrix_and_of_each_head():
    fused, heads = (identity_block(6, 6, heads=2, placement=p) for p in ("fused", "per_head"))
    assert np.array_equal(fused, np.eye(6))
    assert np.array_equal(heads[:, 3:], np.eye(6, 3)) and np.linalg.matrix_rank(heads) == 3
    assert np.linalg.norm(heads, 2) == pytest.approx(2**0.5)


@pytest.mark.parametrize("kind", CORRECTIONS)
def test_norm_preservation_keeps_the_norm_and_the_condition_number(kind):
    W, basis = (normals(stream(3), name, 0, 16, 8) for name in ("W", "basis"))
    free, kept = (Correction(kind, 10.0, norm_preserving=held).conditioned(W, basis) for held in (False, True))
    assert np.linalg.norm(kept) == pytest.approx(np.linalg.norm(W))
    assert condition_number(kept) == pytest.approx(condition_number(free))


@pytest.mark.parametrize(
    "call, fragment",
    [
        (lambda: Correction("magic"), "choose from none"),
        (lambda: Correction("shift", float("nan")), "not finite"),
        (lambda: Correction("orthogonal_shared", 1.0).matrix(np.eye(3)), "independent normals of shape (3, 3)"),
        (lambda: identity_block(4, 4, heads=3), "take a divisor"),
        (lambda: identity_block(4, 4, placement="there"), "choose from fused"),
    ],
)
def test_refusals_name_value_rule_and_remedy(call, fragment):
    with pytest.raises(ValueError, match=fragment.replace("(", r"\(").replace(")", r"\)")):
        call()


def test_condition_numbers_by_hand():
    stack = np.stack([np.diag([4.0, 2.0]), np.diag([3.0, 0.0]), np.zeros((2, 2))])
    assert condition_number(stack)[:2].tolist() == [2.0, np.inf] and np.isnan(condition_number(stack)[2])
    assert pseudo_condition_number(np.diag([4.0, 2.0, 0.0]), null=1) == 2.0
    assert diagonal_attention(np.full((5, 5), 0.2)) == pytest.approx(0.2)


def test_draws_do_not_depend_on_what_is_done_with_them():
    sizes = {"width": 8, "head_dim": 4, "value_dim": 2}
    one, half = (draw_projections(stream(4), 1, **sizes, std=std) for std in (1.0, 0.5))
    assert np.array_equal(one.query, 2 * half.query)
    uniform = draw_projections(stream(4), 1, 64, 64, 1, std=1.0, init="uniform").query
    # 4096 entries: the sample variance has relative standard error .014, so 5 of them fail once in 10^6
    assert np.abs(uniform).max() <= 3**0.5 and abs(uniform.var() - 1) < 0.07


def test_layer_normed_tokens():
    X = draw_tokens(stream(5), 0, 6, 10)
    assert np.allclose(X.mean(axis=1), 0, atol=1e-14) and np.allclose((X**2).mean(axis=1), 1)
