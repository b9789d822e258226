"""Free sums, products and powers against closed forms, exact edges, each other and matrices."""

import dataclasses
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmt.laws.additive import free_sum
from rmt.laws.empirical import EmpiricalLaw, point_mass
from rmt.laws.fuss_catalan import FussCatalan
from rmt.laws.marchenko_pastur import MarchenkoPastur
from rmt.laws.multiplicative import free_product
from rmt.laws.powers import compression, free_product_power, free_sum_power
from rmt.laws.rectangular import rectangular_free_sum
from rmt.laws.semicircle import Semicircle
from rmt.laws.shifted_gaussian import ShiftedGaussian
from rmt.laws.subordination import converged

SIGNS = EmpiricalLaw([-1.0, 1.0])
COIN = EmpiricalLaw([0.0, 1.0])


def grid(law, points=400):
    return np.concatenate([low + (high - low) * np.linspace(1e-3, 1 - 1e-3, points) for low, high in law.support])


def agree(found, expected, tolerance=1e-10):
    assert found.support == pytest.approx(expected.support, abs=tolerance)
    x = grid(expected)
    assert found.density(x) == pytest.approx(expected.density(x), rel=1e-8, abs=tolerance)
    assert found.cdf(x) == pytest.approx(expected.cdf(x), abs=tolerance)
    z = x[::40] + 0.3j
    assert found.stieltjes(z) == pytest.approx(expected.stieltjes(z), abs=tolerance)


def noise_and_noise(ratio):
    return rectangular_free_sum(MarchenkoPastur(ratio, 1.0), MarchenkoPastur(ratio, 2.0), ratio=ratio)


@pytest.mark.parametrize(
    "found, expected",
    [
        (lambda: free_sum(Semicircle(1.0), Semicircle(3.0)), Semicircle(4.0)),
        (lambda: free_sum(MarchenkoPastur(1.0), MarchenkoPastur(1.0)), MarchenkoPastur(0.5, 2.0)),
        (lambda: free_sum_power(Semicircle(1.0), 2.7), Semicircle(2.7)),
        (lambda: free_product(MarchenkoPastur(1.0), MarchenkoPastur(1.0)), FussCatalan(2)),
        (lambda: free_product(FussCatalan(2, 3.0), MarchenkoPastur(1.0)), FussCatalan(3, 3.0)),
        (lambda: free_product_power(MarchenkoPastur(1.0, 2.0), 3), FussCatalan(3, 8.0)),
        (lambda: compression(Semicircle(1.0), 0.3), Semicircle(0.3)),
        (lambda: free_product(point_mass(2.0), MarchenkoPastur(0.5)), MarchenkoPastur(0.5, 2.0)),
        (lambda: noise_and_noise(1.0), MarchenkoPastur(1.0, 3.0)),
        (lambda: noise_and_noise(0.4), MarchenkoPastur(0.4, 3.0)),
    ],
)
def test_closed_forms(found, expected):
    agree(found(), expected)


def test_signs_plus_signs_is_the_arcsine_law():
    """Density 1/(pi sqrt(4 - x^2)): two spins in general position. No atoms come from no atoms above one half."""
    law = free_sum(SIGNS, SIGNS)
    assert law.support == pytest.approx(np.array([[-2.0, 2.0]]), abs=1e-12) and len(law.atoms) == 0
    x = np.linspace(-1.99, 1.99, 100)
    assert law.density(x) == pytest.approx(1 / (np.pi * np.sqrt(4 - x**2)), rel=1e-10)
    assert law.cdf(x) == pytest.approx(0.5 + np.arcsin(x / 2) / np.pi, abs=1e-10)


def test_products_of_projections():
    """Traces a, b: mass max(1 - a, 1 - b) at 0, a + b - 1 at 1, edges a + b - 2ab +- 2 sqrt(ab(1-a)(1-b)) (Voiculescu)."""
    a, b = 0.75, 0.6
    p, q = (EmpiricalLaw([0.0, 1.0], weights=[1 - t, t]) for t in (a, b))
    law = free_product(p, q)
    middle, width = a + b - 2 * a * b, 2 * np.sqrt(a * b * (1 - a) * (1 - b))
    assert law.support == pytest.approx(np.array([[middle - width, middle + width]]), abs=1e-10)
    assert law.atoms == pytest.approx(np.array([[0.0, 0.4], [1.0, 0.35]]))
    assert law.moment(1) == pytest.approx(a * b)
    # the same as the corner of q on the range of p, with the rest of the space at 0
    corner = compression(q, a)
    x = grid(law)
    assert law.density(x) == pytest.approx(a * corner.density(x), rel=1e-7)


@pytest.mark.parametrize("variance", [0.25, 0.9, 0.99, 0.999, 1.0, 1.01, 4.0])
def test_two_atoms_and_noise_have_two_intervals_that_merge_at_variance_one(variance):
    """Edges from the critical points of z(w) = w + variance w/(w^2 - 1): w^2 = 1 + (v +- sqrt(v^2 + 8v))/2, by hand."""
    law = free_sum(SIGNS, Semicircle(variance))
    w = np.sqrt(1 + (variance + np.array([-1, 1]) * np.sqrt(variance**2 + 8 * variance)) / 2 + 0j)
    inner, outer = (w + variance * w / (w * w - 1)).real
    if variance < 1:
        expected = [[-outer, -inner], [inner, outer]]
    else:
        expected = [[-outer, outer]]
    assert law.support == pytest.approx(np.array(expected), abs=1e-11)
    assert abs(law.mass_error) < 1e-11
    assert law.moment(2) == pytest.approx(1 + variance, rel=1e-10)
    assert law.moment(4) == pytest.approx(1 + 4 * variance + 2 * variance**2, rel=1e-10)


@pytest.mark.parametrize("ratio", [1.0749, 5.0])
def test_equal_masses_at_zero(ratio):
    """Product of two singular Gram matrices of one ratio: hard edge at 0 beside the atom; E (XY)^2 by hand."""
    law = free_product(MarchenkoPastur(ratio), MarchenkoPastur(ratio))
    assert law.support[0, 0] == 0 and law.atoms == pytest.approx(np.array([[0, 1 - 1 / ratio]]))
    assert abs(law.mass_error) < 1e-10
    assert law.moment(2) == pytest.approx(1 + 2 * ratio, rel=1e-9)


@pytest.mark.parametrize("first, second", [(0.5, 0.5), (1.0, 2.0), (2.0, 2.0), (2.0, 4.0), (4.0, 2.0), (4.0, 4.0)])
def test_a_product_outside_its_support(first, second):
    """On the negative axis and at distance 1e-10 to 0.1 of its edges: z y = (1 + y)(1 + ay)(1 + by), y = -1 - z m(z).

    Closed form: the S-transform of Marchenko-Pastur of ratio a is 1/(1 + ay). At 0 it is the mass of the atom less one.
    """
    law = free_product(MarchenkoPastur(first), MarchenkoPastur(second))
    low, high = law.support[0]
    away = np.logspace(-10, -1, 10)
    z = np.concatenate([-np.logspace(-8, 3, 12), high * (1 + away), low * (1 - away) if low > 0 else []])
    y = -1 - z * law.transform(z.astype(complex)).real
    assert (1 + y) * (1 + first * y) * (1 + second * y) / y == pytest.approx(z, rel=1e-6)
    below = y[z < 0]
    assert np.all(np.diff(below) > 0) and below[0] == pytest.approx(-1 / max(1, first, second), abs=0.01)


@pytest.mark.parametrize(
    "ratios",
    [
        (4.0, 4.0, 1.0),
        *(pytest.param(r, marks=pytest.mark.slow) for r in ((1.0, 2.0, 2.0), (1.0, 2.0, 4.0), (2.0, 4.0, 0.5))),
    ],
)
def test_a_product_of_products_is_associative(ratios):
    """Atoms, gaps and all: the same edges, and E (XYZ)^2 = 1 + a + b + c."""
    a, b, c = (MarchenkoPastur(ratio) for ratio in ratios)
    left, right = free_product(free_product(a, b), c), free_product(a, free_product(b, c))
    assert left.support == pytest.approx(right.support, rel=1e-9, abs=1e-9)
    assert left.atoms == pytest.approx(right.atoms)
    for law in (left, right):
        assert abs(law.mass_error) < 1e-10 and law.moment(2) == pytest.approx(1 + sum(ratios), rel=1e-10)


def test_a_gap_about_to_close_beside_atoms():
    """Four atoms plus three: a gap of 1.3e-5 of the whole, where the fixed point is nearly threefold."""
    law = free_sum(EmpiricalLaw([-5.0, -4.0, -3.0, 1.0]), EmpiricalLaw([-5.0, -5.0, -4.0, -3.0]))
    assert len(law.support) == 3
    assert 1e-5 < law.support[1, 0] - law.support[0, 1] < 1.5e-5
    assert abs(law.mass_error) < 1e-7
    assert law.moment(1) == pytest.approx(-2.75 - 4.25, rel=1e-8)


@pytest.mark.parametrize("shift, ratio", [(2.0, 1.0), (0.5, 1.0), (1.5, 0.5), (0.5, 0.3)])
def test_shifted_noise_has_the_edges_of_the_closed_form(shift, ratio):
    """Two derivations of the extreme singular values of W + shift I."""
    law = ShiftedGaussian(shift, ratio).squared_law()
    assert np.sqrt(law.support[0]) == pytest.approx(ShiftedGaussian(shift, ratio).edges, rel=1e-9, abs=1e-9)
    assert law.moment(1) == pytest.approx(1 + shift**2, rel=1e-10)
    # E tr (A + W)(A + W)^T squared over n, by hand
    assert law.moment(2) == pytest.approx(shift**4 + 2 * shift**2 * (1 + ratio) + 1 + ratio, rel=1e-10)
    assert abs(law.mass_error) < 1e-10


@pytest.mark.parametrize(
    "beta, product, edge, moment",
    [
        (0.5, lambda b: FussCatalan(2, b), 1.338, 2.775),
        (0.5, lambda b: FussCatalan(4, b), 1.771, 4.32),
        pytest.param(1.0, lambda b: FussCatalan(2, b), 3.002, 2.34, marks=pytest.mark.slow),
        pytest.param(1.0, lambda b: FussCatalan(4, b), 3.750, 3.02, marks=pytest.mark.slow),
        pytest.param(
            0.5,
            lambda b: free_product(MarchenkoPastur(1.0, b), MarchenkoPastur(4.0)),
            1.785,
            5.10,
            marks=pytest.mark.slow,
        ),
    ],
    ids=["orthonormal tokens", "gaussian tokens", "orthonormal, hot", "gaussian, hot", "narrow head"],
)
def test_linear_key_query_attention_is_noise_plus_a_product(beta, product, edge, moment):
    """Published edges and E s^4/(E s^2)^2 of sqrt(n)(A - J) in the proportional regime (n = d = d_k; n = 4 d_k).

    The Gaussian-equivalent model: Ginibre noise of variance e^(beta^2) - 1 - beta^2 plus beta times a product of square
    Gaussian matrices (Hayase, Collins and Karakida 2025). An independent path to the edges of HermiteLaw.
    """
    noise = MarchenkoPastur(1.0, np.expm1(beta**2) - beta**2)
    law = rectangular_free_sum(noise, product(beta**2), ratio=1.0)
    assert np.sqrt(law.support[-1, 1]) == pytest.approx(edge, abs=6e-4)
    assert law.moment(1) == pytest.approx(np.expm1(beta**2), rel=1e-10)
    assert law.moment(2) / law.moment(1) ** 2 == pytest.approx(moment, abs=6e-3)


def test_square_rectangular_sum_is_the_free_sum_of_symmetrised_laws():
    """Ratio 1, singular values 1 and 3 of A, all 1 of B: an independent path through the additive calculus."""
    law = rectangular_free_sum(EmpiricalLaw([1.0, 9.0]), point_mass(1.0), ratio=1.0)
    symmetric = free_sum(EmpiricalLaw([-3.0, -1.0, 1.0, 3.0]), SIGNS)
    assert np.sqrt(law.support) == pytest.approx(symmetric.support[symmetric.support[:, 0] >= 0], abs=1e-8)
    s = np.linspace(0.1, 3.9, 39)
    assert law.density(s**2) * 2 * s == pytest.approx(2 * symmetric.density(s), abs=1e-9)


def test_ranks_add():
    law = rectangular_free_sum(EmpiricalLaw([0, 0, 1.0]), EmpiricalLaw([0, 0, 0, 2.0]), ratio=0.5)
    assert law.atoms == pytest.approx(np.array([[0, 2 / 3 + 3 / 4 - 1]]))
    assert free_sum(MarchenkoPastur(4.0), MarchenkoPastur(4.0)).atoms == pytest.approx(np.array([[0, 0.5]]))


@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.9])
def test_a_corner_of_a_projection(fraction):
    """The Jacobi (MANOVA) law: edges (sqrt(ab') +- sqrt(a'b))^2 with a = fraction, b = 1/2."""
    law = compression(COIN, fraction)
    low, high = np.sort((np.sqrt(fraction / 2) + np.array([-1, 1]) * np.sqrt((1 - fraction) / 2)) ** 2)
    assert law.support == pytest.approx(np.array([[low, high]]), abs=1e-9)


laws_on_the_line = st.one_of(
    st.builds(Semicircle, variance=st.floats(0.05, 5)),
    st.builds(MarchenkoPastur, ratio=st.floats(0.1, 5), variance=st.floats(0.2, 3)),
    st.builds(EmpiricalLaw, st.lists(st.integers(-6, 6).map(float), min_size=1, max_size=4)),
)
positive_laws = st.one_of(
    st.builds(MarchenkoPastur, ratio=st.floats(0.1, 5), variance=st.floats(0.2, 3)),
    st.builds(FussCatalan, order=st.integers(1, 2)),
    st.builds(EmpiricalLaw, st.lists(st.integers(1, 9).map(float), min_size=1, max_size=4)),
)


def cumulants(law):
    """Free cumulants 1 to 4 from moments (Nica and Speicher 2006, lecture 11)."""
    m1, m2, m3, m4 = (law.moment(k) for k in range(1, 5))
    return np.array([m1, m2 - m1**2, m3 - 3 * m1 * m2 + 2 * m1**3,
                     m4 - 4 * m1 * m3 - 2 * m2**2 + 10 * m1**2 * m2 - 5 * m1**4])  # fmt: skip


@settings(max_examples=8, deadline=None, derandomize=True)
@given(first=laws_on_the_line, second=laws_on_the_line)
def test_free_cumulants_add(first, second):
    law = free_sum(first, second)
    assert abs(law.mass_error) < 1e-6
    scale = np.max(np.abs(law.support), initial=1.0)
    assert cumulants(law) == pytest.approx(cumulants(first) + cumulants(second), abs=1e-6 * scale**4)


@settings(max_examples=8, deadline=None, derandomize=True)
@given(first=positive_laws, second=positive_laws)
def test_moments_of_a_free_product(first, second):
    """E XY = E X E Y; E (XY)^2 = E X^2 (E Y)^2 + (E X)^2 E Y^2 - (E X E Y)^2; and the order does not matter."""
    law = free_product(first, second)
    assert abs(law.mass_error) < 1e-6
    a, b, a2, b2 = first.moment(1), second.moment(1), first.moment(2), second.moment(2)
    assert law.moment(1) == pytest.approx(a * b, rel=1e-6)
    assert law.moment(2) == pytest.approx(a2 * b * b + a * a * b2 - (a * b) ** 2, rel=1e-6)
    swapped = free_product(second, first)
    assert swapped.support == pytest.approx(law.support, rel=1e-6, abs=1e-9 * law.moment(1))


@settings(max_examples=8, deadline=None, derandomize=True)
@given(first=laws_on_the_line, second=laws_on_the_line, data=st.data())
def test_the_residual_of_the_fixed_point_is_rounding(first, second, data):
    law = free_sum(first, second)
    x = data.draw(st.floats(-20, 20)) + 1j * data.draw(st.floats(1e-3, 5))
    w1, w2, residual = law.transform.points(np.array([x]))
    assert residual < 1e-13
    m = law.stieltjes(x)
    assert first.stieltjes(w1[0]) == pytest.approx(m, rel=1e-9) and second.stieltjes(w2[0]) == pytest.approx(
        m, rel=1e-9
    )
    assert w1[0] + w2[0] == pytest.approx(x - 1 / m, rel=1e-9)


@pytest.mark.slow
def test_a_sum_of_sums_is_associative():
    """Laws solved numerically are laws again: 20 s, as every step of the outer solver solves the inner one."""
    left = free_sum(free_sum(SIGNS, Semicircle(0.3)), MarchenkoPastur(0.5))
    right = free_sum(SIGNS, free_sum(Semicircle(0.3), MarchenkoPastur(0.5)))
    assert left.support == pytest.approx(right.support, abs=1e-9)
    x = grid(left, 50)
    assert left.density(x) == pytest.approx(right.density(x), abs=1e-9)


def test_a_thousand_points_in_under_a_second():
    """Support, density and cdf: processor time, of which nine tenths is the search for the support."""
    begin = time.process_time()
    law = free_sum(MarchenkoPastur(2.0), Semicircle(0.1))
    x = np.linspace(-1, 7, 1000)
    law.density(x), law.cdf(x)
    assert time.process_time() - begin < 1.0


def test_a_wrong_support_is_refused():
    """Negative control of the mass check, and of the residual check."""
    law = free_sum(MarchenkoPastur(0.5), Semicircle(1.0))
    half = dataclasses.replace(law, support=np.array([[law.support[0, 0], 1.0]]))
    with pytest.raises(ArithmeticError, match="instead of 1"):
        half.cdf(0.0)
    with pytest.raises(ArithmeticError, match="no fixed point at z = 2"):
        converged(np.array([1e-16, 1e-3]), np.array([1.0, 2.0]))


def test_mistakes_are_named():
    with pytest.raises(ValueError, match=r"laws on \[0, inf\)"):
        free_product(Semicircle(1.0), MarchenkoPastur(1.0))
    with pytest.raises(ValueError, match=r"power 0.5: must be a finite number >= 1"):
        free_sum_power(Semicircle(1.0), 0.5)
    with pytest.raises(ValueError, match=r"fraction 2: must be in"):
        compression(Semicircle(1.0), 2)
    with pytest.raises(ValueError, match=r"ratio 2: must be in"):
        rectangular_free_sum(COIN, COIN, ratio=2)
