"""Averages of heads: their types and scales, and samples."""

import math

import numpy as np
import pytest

from rmt.laws.averaged_heads import averaged_heads_law, heads_of, independent_heads, typical_heads
from rmt.laws.keyquery import KeyQueryLaw, independent_pieces
from rmt.laws.piece_law import PieceLaw
from tests.laws.drawn_attention import centred_values, distance, layer_normalised, softmax


def test_one_head_is_a_head():
    law, one = averaged_heads_law(1000, 0.7, independent_heads(1, 64)), KeyQueryLaw(1000, 64, 0.7)
    x = np.linspace(0.1, 4.0, 30)
    assert np.abs(law.cdf(x) - one.cdf(x)).max() < 0.02
    assert law.moment(2) == pytest.approx(one.moment(2), rel=0.02)


def test_typical_heads_are_drawn_heads():
    """Oracle: eight draws of weights at d = 128, h = 4, d_k = 32: types and scales within 5 %."""
    generator = np.random.default_rng(2)
    centre = np.eye(128) - 1 / 128
    drawn = [
        heads_of(*generator.standard_normal((2, 4, 128, 32)) / math.sqrt(128), covariance=centre, sphere=127)
        for _ in range(8)
    ]
    typical = typical_heads(4, 32, 128, sphere=127)
    spread = [one.joint.effective_dimension for one in drawn]
    assert np.mean(spread) == pytest.approx(typical.joint.effective_dimension, rel=0.05)
    squares = [np.mean(np.sort(one.joint.squares)[-20:]) for one in drawn]
    assert np.mean(squares) == pytest.approx(np.mean(np.sort(typical.joint.squares)[-20:]), rel=0.05)
    assert np.mean([one.joint.mean for one in drawn]) == pytest.approx(1, abs=0.05)


def test_independent_heads_have_this_law_and_not_a_scaled_head():
    """Oracle: numpy, n = 700, h = 4, d_k = 64, beta = 1: below .02 (published .012); control: one head over sqrt(h)."""
    generator = np.random.default_rng(5)
    q, k = generator.standard_normal((2, 4, 700, 64))
    matrix = sum(softmax(a @ b.T / 8) for a, b in zip(q, k, strict=True)) / 4
    law = averaged_heads_law(700, 1.0, independent_heads(4, 64))
    values = centred_values(matrix)
    assert distance(law, values) < 0.02
    assert distance(KeyQueryLaw(700, 64, 1.0), 2 * values) > 0.04
    assert law.top_value([1, 2]) == pytest.approx(values[[-1, -2]], rel=0.03)


TABLE = [  # heads, n, beta, width (None: independent); published distance, that of one head scaled by heads^(-1/2);
    # two largest values measured and predicted; d_k = 64, shared tokens layer-normalised
    (4, 1500, 1.0, None, 0.0121, 0.094, (2.13, 2.07), (2.08, 2.05)),
    (8, 1500, 1.0, None, 0.0091, 0.141, (1.286, 1.248), (1.278, 1.252)),
    (4, 1500, 0.5, None, 0.0077, 0.128, (0.994, 0.975), (0.986, 0.973)),
    (4, 1500, 1.0, 256, 0.0224, 0.060, (3.30, 3.27), (3.30, 3.23)),
    (8, 1500, 1.0, 512, 0.0157, 0.106, (1.813, 1.781), (1.807, 1.775)),
    (8, 1500, 0.5, 512, 0.0108, None, None, None),
    (12, 1500, 1.0, 768, 0.0116, None, (1.297, 1.274), (1.281, 1.262)),
    (12, 512, 1.0, 768, 0.0151, None, (0.955, 0.933), (0.961, 0.941)),
]


def average(heads, n, beta, width, seed):
    """Singular values of an average of drawn heads, and the law."""
    generator = np.random.default_rng([seed, heads, n, width or 0, int(10 * beta)])
    if width is None:
        given = independent_heads(heads, 64)
        q, k = generator.standard_normal((2, heads, n, 64))
    else:
        tokens = layer_normalised(generator.standard_normal((n, width)))
        weights = generator.standard_normal((2, heads, width, 64)) / math.sqrt(width)
        given = heads_of(*weights, covariance=np.eye(width) - 1 / width, sphere=width - 1)
        q, k = tokens @ weights
    mean = sum(softmax(beta / 8 * a @ b.T) for a, b in zip(q, k, strict=True)) / heads
    return centred_values(mean), averaged_heads_law(n, beta, given)


@pytest.mark.slow
@pytest.mark.parametrize("heads, n, beta, width, published, alone, measured, predicted", TABLE)
def test_published_table(heads, n, beta, width, published, alone, measured, predicted):
    """Oracle: numpy, two draws: distance at most .015; independent heads within .006 of the published one, shared heads below it,
    which was without the tilt; two leading values 3 %, shared tokens 5 %.

    Published values likewise. Control: one head of independent tokens, scaled, misses by what was published, .025.
    """
    drawn = [average(heads, n, beta, width, seed) for seed in range(2)]
    gap = np.mean([distance(law, values) for values, law in drawn])
    assert gap < 0.015
    if width is None:
        assert gap == pytest.approx(published, abs=0.006)
    else:
        assert gap < published
    one = PieceLaw(independent_pieces(n, 64, beta, heavy=False), n)
    scaled = np.mean([distance(one, math.sqrt(heads) * values) for values, _ in drawn])
    assert scaled > 2 * published
    assert alone is None or scaled == pytest.approx(alone, abs=0.025)
    tolerance = 0.03 if width is None else 0.05
    found = np.mean([law.top_value([1, 2]) for _, law in drawn], axis=0)
    assert found == pytest.approx(np.mean([values[[-1, -2]] for values, _ in drawn], axis=0), rel=tolerance)
    if measured:
        assert found == pytest.approx(measured, rel=tolerance)
        assert found == pytest.approx(predicted, rel=tolerance)
