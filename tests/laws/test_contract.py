"""What every spectral law promises, tested on every law: mass, slope, inverse, moments, boundary values.

The oracle is tanh-sinh quadrature of `density` over `support`, and Cauchy's integral of `stieltjes` on a large circle.
"""

import functools
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmt.laws.additive import free_sum
from rmt.laws.circular import CircularLaw
from rmt.laws.edelman import EdelmanConditionNumber
from rmt.laws.empirical import EmpiricalLaw
from rmt.laws.fuss_catalan import FussCatalan
from rmt.laws.law import SpectralLaw, hull
from rmt.laws.marchenko_pastur import MarchenkoPastur
from rmt.laws.multiplicative import free_product
from rmt.laws.powers import compression, free_product_power, free_sum_power
from rmt.laws.quarter_circle import QuarterCircle
from rmt.laws.rectangular import rectangular_free_sum
from rmt.laws.semicircle import Semicircle

SIGNS = EmpiricalLaw([-1.0, 1.0])
CLOSED_FORMS = [
    Semicircle(variance=1.0),
    Semicircle(variance=1e-6),
    MarchenkoPastur(ratio=0.25),
    MarchenkoPastur(ratio=1.0, variance=3.0),
    MarchenkoPastur(ratio=4.0),
    QuarterCircle(variance=2.0),
    CircularLaw(variance=0.5),
    FussCatalan(order=1),
    FussCatalan(order=2, variance=0.3),
    FussCatalan(order=4),
]
LAWS = {repr(law): lambda law=law: law for law in CLOSED_FORMS} | {
    "marchenko-pastur + semicircle": lambda: free_sum(MarchenkoPastur(0.5), Semicircle(1.0)),
    "marchenko-pastur with an atom + semicircle": lambda: free_sum(MarchenkoPastur(2.0), Semicircle(0.01)),
    "two atoms + semicircle": lambda: free_sum(SIGNS, Semicircle(0.5)),
    "marchenko-pastur x marchenko-pastur": lambda: free_product(MarchenkoPastur(0.5), MarchenkoPastur(2.0)),
    "two atoms x marchenko-pastur": lambda: free_product(EmpiricalLaw([1.0, 4.0]), MarchenkoPastur(0.1)),
    "fuss-catalan by subordination": lambda: free_product(MarchenkoPastur(1.0), MarchenkoPastur(1.0)),
    "a power of a sum": lambda: free_sum_power(MarchenkoPastur(4.0), 1.5),
    "a power of a product": lambda: free_product_power(MarchenkoPastur(0.3), 1.5),
    "a corner": lambda: compression(EmpiricalLaw([0.0, 1.0, 1.0]), 0.3),
    "rectangular": lambda: rectangular_free_sum(EmpiricalLaw([0.0, 4.0]), MarchenkoPastur(0.5), ratio=0.5),
}


@functools.cache
def made(name):
    return LAWS[name]()


@pytest.fixture(params=LAWS)
def law(request):
    return made(request.param)


def nodes(low, high, points=401, reach=4.7):
    """tanh-sinh nodes and weights on (low, high), given by their distance from the nearer end."""
    t = np.linspace(-reach, reach, points)
    step = t[1] - t[0]
    fraction = 1 / (1 + np.exp(np.pi * np.sinh(np.abs(t))))
    x = np.where(t < 0, low + (high - low) * fraction, high - (high - low) * fraction)
    weights = (high - low) * fraction * (1 - fraction) * np.pi * np.cosh(t) * step
    inside = (x > low) & (x < high)
    return x[inside], weights[inside]


@functools.cache
def _pieces(identity, support):
    law = _known[identity]
    return [(x, weights * law.density(x)) for x, weights in (nodes(low, high) for low, high in support)]


_known = {}


def mean(law, f):
    """E f(X), by quadrature of the density and the sum over atoms."""
    _known[id(law)] = law  # keeps it alive, so that the identity stays its own
    total = np.sum(law.atoms[:, 1] * f(law.atoms[:, 0]))
    for x, masses in _pieces(id(law), tuple(map(tuple, law.support))):
        total += np.sum(masses * f(x))
    return total


def moments_from_stieltjes(law, count, points=256):
    """E X^k = -1/(2 pi i) times the integral of z^k m(z) on a circle that holds the law: exponentially accurate."""
    low, high = hull(law)
    centre, radius = (low + high) / 2, (high - low) * 0.8 + 1e-3
    w = np.exp(2j * np.pi * (np.arange(points) + 0.5) / points)
    z = centre + radius * w
    m = np.where(z.imag > 0, law.stieltjes(z), law.stieltjes(z.conj()).conj())
    return np.array([-np.mean(z**k * m * radius * w).real for k in range(count)])


def interior(law, points=13):
    return np.concatenate([low + (high - low) * np.linspace(0.02, 0.98, points) for low, high in law.support])


def test_is_a_law(law):
    assert isinstance(law, SpectralLaw)
    assert law.support.ndim == 2 and law.support.shape[1] == 2 and np.all(np.diff(law.support.ravel()) > 0)
    assert law.atoms.shape[1] == 2 and np.all(law.atoms[:, 1] > 0)


def test_mass_is_one(law):
    assert mean(law, np.ones_like) == pytest.approx(1, abs=1e-10)


def test_cdf_is_the_integral_of_the_density(law):
    x = interior(law)
    low, _ = hull(law)
    assert law.cdf(low - 1) == 0 and law.cdf(hull(law)[1]) == pytest.approx(1, abs=1e-12)
    for a, b in itertools.pairwise(x):
        between = (law.support[:, 0] > a) & (law.support[:, 0] < b)
        if not between.any():
            u, weights = nodes(a, b, points=101)
            assert law.cdf(b) - law.cdf(a) == pytest.approx(np.sum(weights * law.density(u)), abs=1e-10)
    for (_, left), (right, _) in itertools.pairwise(law.support):
        assert law.cdf(right) == pytest.approx(law.cdf(left), abs=1e-12)


def test_quantile_inverts_the_cdf(law):
    x = interior(law)
    assert law.quantile(law.cdf(x)) == pytest.approx(x, rel=1e-9)
    assert law.quantile(0.0) == pytest.approx(hull(law)[0], abs=1e-9)
    assert law.quantile(1.0) == pytest.approx(hull(law)[1], rel=1e-9)
    assert np.isnan(law.quantile([-0.1, 1.1])).all()


def test_moments_agree(law):
    """Closed form, density and Stieltjes transform: relative to the radius of the law, 1e-8."""
    scale = np.max(np.abs(hull(law)))
    from_transform = moments_from_stieltjes(law, 7)
    for k in range(7):
        closed = law.moment(k)
        assert mean(law, lambda x, k=k: x**k) == pytest.approx(closed, rel=1e-8, abs=1e-10 * scale**k)
        assert from_transform[k] == pytest.approx(closed, rel=1e-8, abs=1e-10 * scale**k)


def test_stieltjes_has_the_density_as_its_boundary_value(law):
    x = interior(law)
    assert law.stieltjes(x).imag / np.pi == pytest.approx(law.density(x), rel=1e-9)
    z = x + 1j * (hull(law)[1] - hull(law)[0]) * 0.3
    expected = [mean(law, lambda t, z=z: 1 / (t - z)) for z in z]
    assert law.stieltjes(z) == pytest.approx(np.array(expected), rel=1e-9)
    low, high = hull(law)
    outside = np.array([low - 1, high + 1])
    assert np.all(np.abs(law.stieltjes(outside).imag) < 1e-12)


def test_outside_the_support_there_is_nothing(law):
    low, high = hull(law)
    x = np.array([low - 1.0, high + 1.0])
    assert law.density(x).tolist() == [0, 0]
    assert law.cdf(x).tolist() == [0, 1]


def test_nan_stays_nan_and_empty_stays_empty(law):
    for method in (law.density, law.cdf, law.quantile):
        assert np.isnan(method(np.nan)) and np.isnan(method([np.nan, 0.5])).tolist() == [True, False]
    for method in (law.density, law.cdf, law.quantile, law.stieltjes):
        assert np.shape(method(np.array([]))) == (0,)


@pytest.mark.parametrize("far", [1e3, 1e8, 1e300])
def test_far_out_the_law_is_a_point(law, far):
    """-m(z) z is 1 + mean/z + ...; a closed form that cancels is off by the unit roundoff times z squared."""
    z = far * hull(law)[1]
    assert -law.stieltjes(z) * z == pytest.approx(1, rel=1e-2 if far == 1e3 else 1e-7)
    assert law.cdf(z) == 1 and law.density(z) == 0


def test_transforms_are_infinite_where_the_law_is_dense_at_zero():
    for law in (QuarterCircle(), MarchenkoPastur(1.0), MarchenkoPastur(3.0)):
        assert law.stieltjes(0.0) == np.inf
    atom = free_product(MarchenkoPastur(2.0), MarchenkoPastur(0.5))
    assert atom.stieltjes([0.0, -1.0])[0] == np.inf and np.isfinite(atom.stieltjes(-1.0))


def test_shapes_are_kept(law):
    for shape in ((), (3,), (2, 3)):
        x = np.full(shape, interior(law)[3])
        for value in (law.density(x), law.cdf(x), law.quantile(law.cdf(x)), law.stieltjes(x)):
            assert np.shape(value) == shape


def test_sample_follows_the_cdf(law):
    """6000 draws: Kolmogorov distance below .035 (false alarm 2 exp(-2 n .035^2) = 8e-7; sees .06 with power .99)."""
    draws = np.sort(law.sample(np.random.default_rng(1), 6000))
    steps = np.arange(1, 6001) / 6000
    off = np.abs(law.cdf(draws) - steps)
    at_atom = np.isin(draws, law.atoms[:, 0])
    assert off[~at_atom].max() < 0.035
    shifted = np.abs(law.cdf(draws * 2) - steps)  # negative control: a scale error
    assert shifted[~at_atom].max() > 0.05


@settings(max_examples=30, deadline=None, derandomize=True)
@given(ratio=st.floats(0.02, 20), variance=st.floats(1e-3, 1e3))
def test_marchenko_pastur_of_any_ratio(ratio, variance):
    law = MarchenkoPastur(ratio, variance)
    assert mean(law, np.ones_like) == pytest.approx(1, abs=1e-10)
    assert mean(law, np.array) == pytest.approx(variance, rel=1e-9)
    x = interior(law, 5)
    assert law.quantile(law.cdf(x)) == pytest.approx(x, rel=1e-7)
    # the dual Gram matrix has the same nonzero eigenvalues
    dual = MarchenkoPastur(1 / ratio, variance * ratio)
    assert dual.density(x) == pytest.approx(law.density(x) * ratio, rel=1e-9)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(values=st.lists(st.floats(-50, 50), min_size=1, max_size=20), data=st.data())
def test_empirical_law(values, data):
    law = EmpiricalLaw(values)
    assert isinstance(law, SpectralLaw)
    assert law.atoms[:, 1].sum() == pytest.approx(1)
    assert law.moment(2) == pytest.approx(np.mean(np.square(values)))
    x = data.draw(st.floats(-60, 60))
    assert law.cdf(x) == pytest.approx(np.mean(np.array(values) <= x))
    assert law.quantile(law.cdf(law.atoms[:, 0])) == pytest.approx(law.atoms[:, 0])
    assert law.stieltjes(x + 1j) == pytest.approx(np.mean(1 / (np.array(values) - x - 1j)))


def test_empirical_law_with_weights():
    """By hand."""
    law = EmpiricalLaw([2.0, 0.0, 2.0], weights=[1.0, 2.0, 1.0])
    assert law.atoms.tolist() == [[0.0, 0.5], [2.0, 0.5]]
    assert law.quantile([0.0, 0.5, 0.51, 1.0]).tolist() == [0.0, 0.0, 2.0, 2.0]
    with pytest.raises(ValueError, match="weights: need 2"):
        EmpiricalLaw([1.0, 2.0], weights=[1.0])
    with pytest.raises(ValueError, match="at least one value"):
        EmpiricalLaw([])


@pytest.mark.parametrize("field, median", [("real", 3.671), ("complex", 2.402)])
def test_edelman(field, median):
    """Published median; the density is the slope of the cdf; the tail is 2/x or 4/x^2."""
    law = EdelmanConditionNumber(field)
    assert law.quantile(0.5) == pytest.approx(median, abs=6e-4)
    x, h = np.array([0.5, 1.0, 4.0, 30.0]), 1e-5
    assert (law.cdf(x + h) - law.cdf(x - h)) / (2 * h) == pytest.approx(law.density(x), rel=1e-6)
    assert law.quantile(law.cdf(x)) == pytest.approx(x)
    assert 1 - law.cdf(1e6) == pytest.approx(2e-6 if field == "real" else 4e-12, rel=1e-3)
    assert np.isnan(law.cdf(np.nan)) and np.isnan(law.density(np.nan)) and law.density(1e-300) == 0


@pytest.mark.parametrize("field, published", [("real", 1.537), ("complex", 0.982)])
def test_mean_logarithm_of_the_condition_number(field, published):
    """Published digits (Edelman 1988), and the mean of ln over a million equally likely quantiles."""
    law = EdelmanConditionNumber(field)
    assert law.mean_log == pytest.approx(published, abs=6e-4)
    quantiles = law.quantile((np.arange(1_000_000) + 0.5) / 1_000_000)
    assert law.mean_log == pytest.approx(np.log(quantiles).mean(), abs=1e-5)


def test_circular_law_in_the_plane():
    law = CircularLaw(variance=2.0)
    assert law.density_at([0.5 + 0.5j, 2.0]).tolist() == [1 / (2 * np.pi), 0.0]
    draws = law.sample_plane(np.random.default_rng(0), 4000)
    # mean of 4000 points on the disc: standard error .016, five of them
    assert abs(draws.mean()) < 0.08 and np.abs(draws).max() <= law.radius
