"""Singular values of the Jacobian: dense against products, the identity with P X and its bound, counterexample, controls."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from rmt.attention.corrections import Correction
from rmt.attention.jacobian import Attention, AttentionJacobian
from rmt.attention.jacobian_draws import Projections, draw_projections, draw_tokens, normals
from rmt.attention.jacobian_spectrum import jacobian_spectrum, needed_normals
from rmt.observables.conditioning import condition_number, softmax_pseudo_condition
from rmt.streams import stream
from rmt.theorems.conditioning_bounds import paper_bound, replacement_bound


def drawn(draw, n, width, head_dim, value_dim, *, heads=1, kind="gaussian", std=None, attention=None):
    W = draw_projections(stream(7), draw, width, head_dim, value_dim, heads=heads, std=std or width**-0.5)
    X = draw_tokens(stream(7), draw, n, width, kind=kind)
    return AttentionJacobian(X, W, attention or Attention(heads=heads))


def spectrum(jacobian, **options):
    start = normals(stream(8), "start", 0, 1, needed_normals(jacobian)).ravel()
    return jacobian_spectrum(jacobian, start=start, **options)


@pytest.mark.parametrize(
    "sizes, method, tolerance",
    [
        ((8, 16, 16, 16), "identity", 1e-9),
        ((8, 16, 4, 4), "certified estimate", 1e-6),
        ((12, 10, 4, 4), "estimate", 1e-4),
        (
            (40, 12, 3, 3),
            "estimate",
            0.5,
        ),  # more rows than columns: the gauge is projected out, the answer is from above
    ],
)
def test_products_alone_find_the_dense_values(sizes, method, tolerance):
    jacobian = drawn(0, *sizes, kind="layernorm")
    dense, found = spectrum(jacobian), spectrum(jacobian, dense=0)
    assert (dense.method, found.method) == ("dense", method)
    assert found.largest == pytest.approx(dense.largest, rel=1e-7)
    assert dense.smallest * (1 - 1e-9) <= found.smallest <= dense.smallest * (1 + tolerance)
    for name, norm in dense.block_norms.items():
        assert norm == pytest.approx(np.linalg.norm(jacobian.only(name).dense(), 2), rel=1e-7)


def test_heads_and_other_attentions():
    for attention in (
        Attention(heads=3),
        Attention("window", window=3),
        Attention("xcit"),
        Attention("nystrom", landmarks=6),
    ):
        jacobian = drawn(1, 12, 32, 4, 4, heads=attention.heads, attention=attention)
        values = np.linalg.svd(jacobian.dense(), compute_uv=False)
        found = spectrum(jacobian)
        rank = np.count_nonzero(values > values[0] * 1e-13)
        assert found.largest == pytest.approx(values[0]) and found.smallest == pytest.approx(values[rank - 1])


@pytest.mark.parametrize(
    "sizes, slack", [((8, 16, 16, 16), 1.5), ((8, 16, 8, 8), 1.5), ((4, 24, 8, 8), 1.5), ((8, 16, 4, 4), None)]
)
def test_the_smallest_value_is_that_of_the_mixed_tokens(sizes, slack):
    """40 draws, weights 0.03 to 30 times Xavier: an identity where value_dim >= n (1e-9 and rounding); a bound always."""
    slacks, identical, kappas = [], [], []
    for draw in range(40):
        gain = 10.0 ** ((draw % 7) / 2 - 1.5)
        seen = spectrum(drawn(draw, *sizes, std=gain * sizes[1] ** -0.5))
        if seen.mixed < 1e-9 * seen.largest:
            continue  # P X is singular up to rounding: nothing is claimed
        identical.append(seen.smallest / seen.mixed)
        kappas.append(seen.condition)
        said = replacement_bound(
            query_norm=seen.block_norms["query"],
            key_norm=seen.block_norms["key"],
            mixed_norm=seen.block_norms["value"],
            mixed_smallest=seen.mixed,
        )
        assert said == pytest.approx(seen.condition_bound, rel=1e-9) and seen.condition <= said * (1 + 1e-6)
        slacks.append(said / seen.condition)
    assert len(slacks) >= 20
    if slack:
        assert np.all(np.abs(np.array(identical) - 1) < 1e-9 + 1e-13 * np.array(kappas)) and np.median(slacks) < slack
    else:
        assert np.min(identical) >= 1 - 1e-6 and np.median(identical) > 2


def test_scaling_the_values_breaks_the_paper_bound():
    X, W = draw_tokens(stream(0), 0, 4, 8, kind="gaussian"), draw_projections(stream(0), 0, 8, 8, 8, std=8**-0.5)
    ratios = []
    for gain in (1.0, 1e6):
        jacobian = AttentionJacobian(X, Projections(W.query, W.key, gain * W.value))
        P = jacobian.heads[0].attention
        kappas = {name: condition_number(getattr(W, name)) for name in ("query", "key", "value")}
        softmax = softmax_pseudo_condition(P)
        said = paper_bound(tokens=condition_number(X), attention=condition_number(P), softmax=softmax, **kappas)
        ratios.append(spectrum(jacobian).condition / said)
    assert ratios[0] < 1 < ratios[1]


@pytest.mark.slow
def test_condition_follows_the_mixed_tokens_not_the_weights():
    """200 draws, n = 8, D = d = 16: rank correlation .9 and more with kappa(P X); the error of each is about .07."""
    rows = []
    for draw in range(200):
        jacobian = drawn(draw, 8, 16, 16, 16)
        W, mixed = jacobian.weights, jacobian.heads[0].attention @ jacobian.tokens
        rows.append([spectrum(jacobian).condition, *(condition_number(M) for M in (mixed, W.query, W.key, W.value))])
    kappa, *others = np.array(rows).T
    found = [spearmanr(kappa, other).statistic for other in others]
    assert found[0] > 0.85 and all(value < 0.4 for value in found[1:])


def test_a_shared_orthogonal_matrix_helps_and_an_independent_one_does_not():
    """25 draws, norm kept, ten times an orthogonal matrix: kappa(W) is the same 1.29 in both."""
    ratios = []
    for draw in range(25):
        base = drawn(draw, 8, 16, 16, 16, kind="layernorm")
        basis = {name: normals(stream(9), name, draw, 16, 16) for name in ("query", "key", "value")}
        fix = Correction("orthogonal_shared", 10.0, norm_preserving=True)
        kappas = []
        for key in ("key", "query"):
            weights = Projections(
                fix.conditioned(base.weights.query, basis["query"]),
                fix.conditioned(base.weights.key, basis[key]),
                fix.conditioned(base.weights.value, basis["value"]),
            )
            assert condition_number(weights.query) < 1.6
            kappas.append(spectrum(AttentionJacobian(base.tokens, weights)).condition)
        ratios.append(kappas[0] / kappas[1])
    assert np.median(ratios) > 10


def test_frozen_queries_and_a_singular_jacobian():
    base = drawn(0, 8, 16, 16, 16, kind="layernorm")
    fixed = Projections(
        *(Correction("shift", 10.0).conditioned(W) for W in (base.weights.query, base.weights.key, base.weights.value))
    )
    seen = spectrum(AttentionJacobian(base.tokens, fixed))
    assert seen.block_norms["query"] / seen.block_norms["value"] < 1e-12
    assert seen.condition == pytest.approx(float(condition_number(base.tokens)), rel=1e-6)
    alike = AttentionJacobian(np.tile(base.tokens[:1], (8, 1)) + 0.0, base.weights)
    assert spectrum(alike).mixed == 0.0
