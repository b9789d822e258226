"""The all-degrees law against closed forms, published edges and its own limits."""

import math

import numpy as np
import pytest
import scipy.special

from rmt.laws.hermite import HermiteLaw, mehler_singular_values


def key_query(n, head_dim, beta):
    return HermiteLaw(n, math.expm1(beta**2), beta, head_dim)


def test_iid_logits_have_the_quarter_circle():
    """Closed forms: edge 2 sigma, E s^4 = 2 sigma^4, density sqrt(4 - x^2)/pi, Johnstone scale 2^(4/3) n^(-2/3)."""
    law = HermiteLaw(1000, 1.0)
    edge = law.edge()
    assert edge.square == pytest.approx(4, rel=1e-8)
    assert law.fourth_moment == 2
    assert edge.scale == pytest.approx(2 ** (4 / 3) * 1000 ** (-2 / 3), rel=1e-4)
    x = np.linspace(0, 1.98, 50)
    assert law.density(x) == pytest.approx(np.sqrt(4 - x**2) / math.pi, abs=1e-3)


@pytest.mark.parametrize("n", [400, 1500])
def test_an_entry_leaves_the_bulk_where_it_exceeds_sigma(n):
    """Closed form: theta + sigma^2/theta above sigma, nothing below."""
    law = HermiteLaw(n, 1.0)
    assert law.edge(entry=2.0).square == pytest.approx(2.5**2, rel=1e-9)
    assert law.edge(entry=2.0).detached and not law.edge(entry=0.9).detached
    assert law.edge(entry=2.0).shifted(-1.27) == law.edge(entry=2.0).square
    assert law.edge(entry=0.9).shifted(-1.27) < 4


def test_small_beta_in_the_proportional_regime_has_edge_27_over_4():
    """A product of two square Gaussian matrices: Fuss-Catalan of order 2, edge 27/4."""
    assert key_query(1000, 1000, 0.01).edge().square / 1e-4 == pytest.approx(27 / 4, rel=3e-3)


@pytest.mark.parametrize(
    "head_dim, beta, edge", [(1000, 0.5, 1.338), (250, 0.5, 1.785), (1000, 1.0, 3.002), (250, 1.0, 3.783)]
)
def test_published_edges_in_the_proportional_regime(head_dim, beta, edge):
    """One-degree edges at n = 1000; the higher degrees change them by less than 1 % there."""
    assert math.sqrt(key_query(1000, head_dim, beta).edge().square) == pytest.approx(edge, rel=0.01)


def test_far_beyond_the_head_dimension_the_second_value_saturates():
    """n -> infinity: edge/sqrt(n) -> beta/sqrt(d_k), the first Mehler value after the top."""
    for beta in (0.5, 1.0):
        saturated = math.sqrt(key_query(10**8, 64, beta).edge().square / 10**8)
        assert saturated == pytest.approx(beta / 8, rel=0.003)
        assert saturated == pytest.approx(mehler_singular_values(beta, 64, 2)[1], rel=0.01)


def test_mehler_values_are_the_published_ones():
    """d_k = 64, beta = 1: s_1 1.0039, s_2 .1255; d_k = 32: .1783; fourth powers add up to (1 - r^2)^(-d_k)."""
    assert mehler_singular_values(1.0, 64, 2) == pytest.approx([1.0039, 0.1255], abs=1e-4)
    assert mehler_singular_values(1.0, 32, 2)[1] == pytest.approx(0.1783, abs=1e-4)
    values = mehler_singular_values(1.0, 8, 5000)
    s = 1 / 8
    r = (1 - math.sqrt(1 - 4 * s * s)) / (2 * s)
    assert np.sum(values**4) / values[0] ** 4 == pytest.approx((1 - r * r) ** -8, rel=1e-6)
    with pytest.raises(ValueError, match="between 0 and 1/2"):
        mehler_singular_values(2.0, 4, 2)


@pytest.mark.parametrize("law", [HermiteLaw(1000, 1.0), key_query(1500, 64, 1.0), key_query(1500, 256, 0.5)])
def test_density_has_mass_one_and_the_closed_moments(law):
    """Mass 1, E s^2 = variance, E s^4 = 2 variance^2 + sum a^4/phi, by trapezoid on a fine grid to 1 %."""
    x = np.linspace(1e-4, 1.001 * law.support[0, 1], 4001)
    density = law.density(x)
    assert np.trapezoid(density, x) == pytest.approx(1, abs=0.005)
    assert np.trapezoid(density * x**2, x) == pytest.approx(law.variance, rel=0.01)
    assert np.trapezoid(density * x**4, x) == pytest.approx(law.fourth_moment, rel=0.01)
    share = x**2 / law.variance
    assert np.trapezoid(density * share * np.log(share), x) == pytest.approx(law.log_moment(), rel=0.02)


@pytest.mark.parametrize("layers", [1, 2, 3, 4])
def test_square_gaussian_factors_give_the_fuss_catalan_edge(layers):
    """Product of 2 l square Gaussian matrices: stable rank of the Gram matrix over n is binom/edge^2, closed form."""
    law = HermiteLaw(400, 1.0)
    order = 2 * layers
    edge = law.edge(factors=[1.0] * (order - 1)).square
    assert edge == pytest.approx((order + 1) ** (order + 1) / order**order, rel=1e-6)
    second = scipy.special.binom(2 * (order + 1), 2) / (2 * order + 1)
    published = {1: 0.0658, 2: 0.0336, 3: 0.0225, 4: 0.0169}[layers]
    assert second / edge**2 == pytest.approx(published, abs=1e-4)


@pytest.mark.parametrize(
    ("head_dim", "beta", "limit", "published"),
    [
        (64, 1.0, 0.1255, (0.1764, 0.1399, 0.1295, 0.1264)),
        (64, 0.5, 0.0625, (0.0862, 0.0697, 0.0648, 0.0632)),
        (128, 1.0, 0.0886, (0.1421, 0.1036, 0.0930, 0.0898)),
    ],
)
def test_second_singular_value_saturates(head_dim, beta, limit, published):
    """Limits of the table for fixed head width; its finite sizes hold one degree only, hence 2 %."""
    assert mehler_singular_values(beta, head_dim, 2)[1] == pytest.approx(limit, abs=6e-5)
    for n, value in zip((10**3, 10**4, 10**5, 10**6), published, strict=True):
        found = key_query(n, head_dim, beta).support[0, 1] / math.sqrt(n)
        assert found == pytest.approx(value, rel=0.02)
    assert key_query(10**9, head_dim, beta).support[0, 1] / math.sqrt(1e9) == pytest.approx(
        beta / math.sqrt(head_dim), rel=1e-3
    )


def test_mehler_multiplicities():
    values = mehler_singular_values(1.0, 8, 1 + 8 + 36 + 1)
    sizes = np.unique(np.round(values, 12), return_counts=True)[1][::-1]
    assert sizes.tolist() == [1, 8, 36, 1]
    with pytest.raises(ValueError, match="between 0 and 1/2"):
        mehler_singular_values(2.0, 8, 3)


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_entropy_of_fuss_catalan_laws(order):
    """E x ln x = 1/2 + ... + 1/(order + 1), from S(s) = (1 + s)^-order."""
    expected = sum(1 / j for j in range(2, order + 2))
    assert HermiteLaw(1000, 3.0).log_moment(factors=[1.0] * (order - 1)) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("ratio", [0.25, 1.0, 4.0])
def test_entropy_with_a_rectangular_factor(ratio):
    """Int_0^p of the S-transform formula by hand: (1 - phi)^2 (1 - c phi), p = min(1, 1/c)."""
    p = min(1.0, 1 / ratio)
    polynomial = np.polynomial.Polynomial([-(2 + ratio), 1 + 2 * ratio, -ratio]).integ()
    assert HermiteLaw(1000, 1.0).log_moment(factors=[ratio]) == pytest.approx(
        -math.log(p) - 1 - polynomial(p), abs=1e-9
    )


def test_largest_values_fall_and_start_below_the_edge():
    law = key_query(1024, 64, 0.8)
    values = law.largest(8)
    assert np.all(np.diff(values) < 0) and values[0] < law.support[0, 1]
    assert law.largest(2) == pytest.approx(values[:2])


@pytest.mark.parametrize("beta", [1e-9, 1e-4, 0.05])
def test_small_logits_keep_their_first_degree(beta):
    """sigma_n^2 < beta^2 there, by the normaliser's 1/n. Closed form: one piece of rank d_k has E s^4 = 2 + n/d_k."""
    n, head_dim = 512, 64
    small = HermiteLaw(n, beta**2 * (1 - 1 / n), beta, head_dim)
    linear = HermiteLaw(n, 1.0, 1.0, head_dim, (1.0,) + (0.0,) * 11)
    assert small.edge().square / small.variance == pytest.approx(linear.edge().square, rel=0.005)
    assert small.fourth_moment / small.variance**2 == pytest.approx(2 + n / head_dim, rel=0.005)
    iid = HermiteLaw(n, small.variance).edge().square  # negative control: without the piece
    assert iid < 0.5 * small.edge().square
    rank = n * math.exp(-small.log_moment())
    assert rank == pytest.approx(57, rel=0.02)  # measured: that of A - J


def test_the_mean_is_no_entry_outside_the_bulk():
    law = HermiteLaw(1000, 1e-8)
    assert not law.edge(entry=1.0005 / math.sqrt(1000)).detached
    assert HermiteLaw(1000, 1.0).edge(entry=1.5).detached  # control


def test_a_law_without_variance_is_refused():
    with pytest.raises(ValueError, match="positive variance"):
        HermiteLaw(10, 0.0)
