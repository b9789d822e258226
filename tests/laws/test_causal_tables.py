"""The published tables of causal attention (moments, equations, phase shift, outliers, keys), against law and matrices."""

import math

import numpy as np
import pytest
from scipy import optimize

from rmt.ensembles.attention import KeyQueryAttention
from rmt.ensembles.markov import MarkovAttention
from rmt.laws.averages import ladder_values
from rmt.laws.causal import CausalLaw, expected_outliers, phase_shift
from rmt.streams import stream


def matrices(n, beta, head_dim, draws):
    """(draws, n, n) from the package's own ensembles."""
    if head_dim is None:
        ensemble = MarkovAttention(n, beta, mask="causal")
    else:
        ensemble = KeyQueryAttention(n, head_dim, beta, mask="causal")
    return ensemble.sample(stream(5), (draws,), dtype=np.float64)


def singular_values(n, beta, head_dim, draws, *, mean=True):
    A = matrices(n, beta, head_dim, draws)
    if not mean:
        A = A - np.tril(np.ones((n, n))) / np.arange(1, n + 1)[:, None]
    return np.linalg.svd(A, compute_uv=False)


STABLE_RANKS = [  # beta, d_k, n; published ||A||_F^2/s_1^2 measured and predicted
    (0.3, None, 250, 2.28, 2.28),
    (0.3, None, 2000, 2.79, 2.79),
    (0.5, 64, 250, 2.55, 2.53),
    (0.5, 64, 2000, 3.15, 3.14),
    (1.0, None, 250, 3.89, 3.87),
    (1.0, None, 2000, 5.35, 5.29),
    (1.0, 128, 250, 3.89, 3.87),
    (1.0, 128, 2000, 5.31, 5.29),
]


@pytest.mark.parametrize("beta, head_dim, n, measured, predicted", STABLE_RANKS)
def test_stable_ranks(beta, head_dim, n, measured, predicted):
    """Tolerance 3 % of the measured value, 1 % of the predicted one."""
    law = CausalLaw(n, beta, head_dim)
    rank = law.frobenius_norm_squared / float(law.top_value(1)) ** 2
    assert rank == pytest.approx(measured, rel=0.03)
    assert rank == pytest.approx(predicted, rel=0.01)


MEASURED = [  # law, measured values (few draws), tolerances from the first value on (the last one for all that follow)
    ((500, 1.0), [1.757, 1.308, 1.021, 0.833, 0.711, 0.646, 0.572, 0.520], [0.03]),
    ((500, 0.5), [1.727, 1.248, 0.916, 0.719, 0.571, 0.486], [0.03]),
    ((2000, 0.5), [1.773, 1.345, 1.020, 0.790, 0.643, 0.548], [0.03]),
    ((2000, 1.0), [1.788, 1.418, 1.098, 0.900], [0.03]),  # its last two, .743 .646, lie 5 % low: see the slow check
    ((500, 1.0, None, False), [0.787, 0.643, 0.565, 0.510, 0.467, 0.436], [0.15, 0.05]),
    pytest.param(*((2000, 1.0, 64), [1.807, 1.416, 1.114, 0.903, 0.767, 0.704], [0.03]), marks=pytest.mark.slow),
    pytest.param(
        *((2000, 1.0, 64, False), [0.787, 0.738, 0.615, 0.546, 0.493, 0.453], [0.15, 0.10, 0.05]),
        marks=pytest.mark.slow,
    ),  # one draw
    pytest.param(
        *((2000, 1.0, 16), [1.815, 1.415, 1.102, 0.980, 0.849, 0.749], [0.03, 0.03, 0.03, 0.07]), marks=pytest.mark.slow
    ),  # one draw
    pytest.param(
        *((2000, 1.0, 16, False), [0.917, 0.778, 0.703, 0.633], [0.15, 0.10]), marks=pytest.mark.slow
    ),  # one draw
    pytest.param(*((20000, 1.0), [1.854, 1.508, 1.208], [0.03]), marks=pytest.mark.slow),
    pytest.param(*((20000, 0.5, 64), [1.833, 1.483, 1.157, 0.944], [0.03]), marks=pytest.mark.slow),
]


@pytest.mark.parametrize("case, measured, tolerances", MEASURED)
def test_measured_values_have_this_law(case, measured, tolerances):
    law = CausalLaw(*case).top_value(np.arange(1, len(measured) + 1))
    errors = np.abs(np.array(measured) / law - 1)
    assert np.all(errors < [tolerances[min(k, len(tolerances) - 1)] for k in range(len(measured))])


PHASES = [  # beta, n; the lengthened ladder and the plain one as published
    (0.5, 500, (1.728, 1.249, 0.893), (1.719, 1.231, 0.875)),
    (1.0, 250, (1.733, 1.258, 0.903), (1.685, 1.166, 0.810)),
    (1.0, 1000, (1.783, 1.365, 1.017), (1.748, 1.290, 0.936)),
    (1.0, 2000, (1.803, 1.410, 1.069), (1.773, 1.343, 0.993)),
    (1.0, 20000, (1.853, 1.533, 1.219), (1.833, 1.484, 1.158)),
    (0.5, 20000, (1.838, 1.495, 1.171, 0.928), (1.833, 1.484, 1.158, 0.915)),
]


@pytest.mark.parametrize("beta, n, lengthened, plain", PHASES)
def test_ladders_with_and_without_the_phase(beta, n, lengthened, plain):
    """Closed forms, to the printed digits."""
    length = math.log(n)
    assert ladder_values(length + phase_shift(beta), len(lengthened)) == pytest.approx(lengthened, abs=6e-4)
    assert ladder_values(length, len(plain)) == pytest.approx(plain, abs=6e-4)


MEASURED_RUNGS = [  # beta, n; measured, models apart; the ladder with the phase has to meet their mean
    (0.5, 500, (1.727, 1.248)),
    (1.0, 250, (1.733, 1.243)),
    (1.0, 1000, (1.803, 1.363)),
    (1.0, 2000, (1.795, 1.407)),
    (1.0, 20000, (1.854, 1.508)),
    (0.5, 20000, (1.833, 1.483, 1.157)),
]


@pytest.mark.parametrize("beta, n, measured", MEASURED_RUNGS)
def test_measured_rungs_are_those_of_the_lengthened_ladder(beta, n, measured):
    """Tolerances 2, 3 and (beta <= .5) 5 %."""
    errors = np.abs(np.array(measured) / ladder_values(math.log(n) + phase_shift(beta), len(measured)) - 1)
    assert np.all(errors < [0.02, 0.03, 0.05][: len(measured)])


SHIFTS = [  # beta, n, published delta of the first three values
    (0.5, 2000, (0.21, 0.21, 0.28)),
    (0.7, 2000, (0.44, 0.42, 0.59)),
    (1.0, 2000, (1.03, 0.94, 1.36)),
    *(
        pytest.param(*case, marks=pytest.mark.slow)
        for case in (
            (0.5, 200_000, (0.19, 0.20, 0.21)),
            (0.7, 200_000, (0.45, 0.41, 0.43)),
            (1.0, 200_000, (1.14, 0.93, 0.97)),
            (0.5, 2_000_000, (0.23, 0.20, 0.19)),
            (0.7, 2_000_000, (0.47, 0.41, 0.40)),
            (1.0, 2_000_000, (1.19, 1.00, 0.97)),
        )
    ),
]


@pytest.mark.parametrize("beta, n, published", SHIFTS)
def test_the_phase_of_the_equations(beta, n, published):
    """An independent solution of the equations. Its lengths to .12, that is .15 % of s_1 at n = 2e6 and 1 % of s_3 at 2e3."""
    values = CausalLaw(n, beta).top_value([1, 2, 3])
    lengths = [
        optimize.brentq(lambda x, k=k, s=s: ladder_values(x, k)[k - 1] - s, 2.0, 30.0) for k, s in enumerate(values, 1)
    ]
    assert np.array(lengths) - math.log(n) == pytest.approx(published, abs=0.12)


@pytest.mark.parametrize(
    "beta, noise_top, counts",
    [(1.0, 0.80, (3.7, 4.1, 4.0)), (0.5, 0.42, (6.1, 5.9, 6.4)), (0.3, 0.26, (8.7, 8.9, 9.8))],
)
def test_outlier_counts(beta, noise_top, counts):
    """Measured at n = 250, 500, 1000 in few draws: within 0.6; ours, 24-48 draws: 8.7 (n = 256), 9.6 (512), 10.2 at beta = .3."""
    found = [expected_outliers(n, beta, noise_top) for n in (250, 500, 1000)]
    assert found == pytest.approx(counts, abs=0.6)


@pytest.mark.parametrize("beta, published", [(0.3, 0.26), (0.5, 0.42), (0.7, 0.61), (1.0, 0.80), (1.5, 1.09)])
def test_largest_values_of_the_noise(beta, published):
    """Medians over draws, within 5 % (beta = 1.5, out of range, included)."""
    assert CausalLaw(1000, beta, mean=False).top_value(1) == pytest.approx(published, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("beta, published", [(0.3, 0.26), (0.5, 0.42), (0.7, 0.61), (1.0, 0.80), (1.5, 1.09)])
def test_largest_values_of_the_noise_in_samples(beta, published):
    """Medians of 64 draws at n = 200, within 5 % and three standard errors of a median (sd 12-20 %, error 2 %)."""
    top = singular_values(200, beta, None, 64, mean=False)[:, 0]
    assert np.median(top) == pytest.approx(published, rel=0.05 + 3 * 1.25 * top.std() / 8 / published)


@pytest.mark.slow
def test_leading_values_scatter_from_draw_to_draw():
    """n = 500, beta = 1, 40 draws: sd of s_1 .04 (published: .02-.03, three runs here: .033, .039, .045), of s_1(A - C) .10."""
    A = matrices(500, 1.0, None, 40)
    average = np.tril(np.ones((500, 500))) / np.arange(1, 501)[:, None]
    assert np.linalg.norm(A, 2, axis=(1, 2)).std(ddof=1) == pytest.approx(0.04, abs=0.014)
    assert np.linalg.norm(A - average, 2, axis=(1, 2)).std(ddof=1) == pytest.approx(0.10, abs=0.035)


@pytest.mark.slow
@pytest.mark.parametrize("beta, head_dim", [(1.0, None), (1.0, 64), (1.0, 16)])
def test_leading_values_and_moments_of_matrices(beta, head_dim):
    """8 draws at n = 1000: s_1 to s_8 within 3 % (5 % for d_k = 16) and three standard errors; norm and rank 3 %."""
    s = singular_values(1000, beta, head_dim, 8)
    law = CausalLaw(1000, beta, head_dim)
    top, error = law.top_value(np.arange(1, 9)), s[:, :8].std(axis=0, ddof=1) / math.sqrt(8)
    assert np.all(np.abs(s[:, :8].mean(axis=0) - top) < (0.05 if head_dim == 16 else 0.03) * top + 3 * error)
    squares = np.sum(s**2, axis=1)
    assert squares.mean() == pytest.approx(law.frobenius_norm_squared, rel=0.03)
    assert np.mean(squares / s[:, 0] ** 2) == pytest.approx(law.frobenius_norm_squared / top[0] ** 2, rel=0.03)


DISTANCES = [  # beta, d_k, n, bound of the distance, distance of the iid law as published
    (1.0, None, 1500, 0.02, None),
    (0.5, None, 1500, 0.02, None),
    (0.5, 64, 1000, 0.03, 0.17),
    (1.0, 64, 1000, 0.03, 0.11),
    (1.0, 32, 1000, 0.04, None),
]


@pytest.mark.slow
@pytest.mark.parametrize("beta, head_dim, n, bound, iid", DISTANCES)
def test_distances_of_whole_spectra(beta, head_dim, n, bound, iid):
    """Two draws. Control: the iid law where keys matter, its distance within .04 of the published one."""
    values = np.sort(singular_values(n, beta, head_dim, 2).ravel())
    rank = (np.arange(values.size) + 0.5) / values.size
    assert np.abs(CausalLaw(n, beta, head_dim).cdf(values) - rank).max() < bound
    if iid is not None:
        assert np.abs(CausalLaw(n, beta).cdf(values) - rank).max() == pytest.approx(iid, abs=0.04)


@pytest.mark.slow
@pytest.mark.parametrize(
    "head_dim, published", [(None, (46.9, 52.8, 58.0)), (64, (55.7, 76.5, 102.0))], ids=["iid", "keyquery"]
)
def test_copies_of_the_ladder_surface_late(head_dim, published):
    """Values above .2 at beta = 1, n = 2e3, 2e4, 2e5: degree one adds d_k copies. Published solution of smeared equations."""
    found = [CausalLaw(n, 1.0, head_dim).count_above(0.2) for n in (2000, 20_000, 200_000)]
    assert found == pytest.approx(published, rel=0.09 if head_dim is None else 0.05)
    if head_dim is None:  # exactly: what the ladder gains above a level, (w/pi) ln 100
        gained = math.sqrt(1 / 0.2**2 - 0.25) / math.pi * math.log(100)
        assert found[2] - found[0] == pytest.approx(gained, rel=0.12)
