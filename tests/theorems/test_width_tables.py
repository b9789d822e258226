"""Closed forms against the published tables of one layer and of depth: every predicted number of them, row by row.

The measured columns are repeated by Monte Carlo in `tests/simulations/test_width_tables.py`; tables that other files hold
(saturation, Hermite edges, Mehler values) are not repeated here. Tolerances: the printed digits, or as stated.
"""

import math

import numpy as np
import pytest
from scipy import special

from rmt.laws import FussCatalan, MarchenkoPastur, free_product, point_mass
from rmt.laws.hermite import HermiteLaw, mehler_singular_values
from rmt.laws.lognormal_softmax import effective_variance
from rmt.laws.rectangular import rectangular_free_sum
from rmt.theorems.cosines import cosines_along_depth
from rmt.theorems.edge_fluctuations import EdgeFluctuation
from rmt.theorems.effective_variance import gamma_variance, uniform_variance
from rmt.theorems.layer import Layer
from rmt.theorems.lyapunov import lyapunov_exponents
from rmt.theorems.moments import moments_along_depth, residual_energy
from rmt.theorems.width import OneLayer, width_predictions
from simulations.layers.setting import SQRT_LN2


@pytest.mark.parametrize(
    ("weights", "published"),
    [
        ("exponential", (0.990, 0.996, 0.998)),
        ("uniform", (0.333, 0.333, 0.333)),
        (SQRT_LN2, (0.972, 0.988, 0.994)),
        (1.0, (1.628, 1.679, 1.698)),
        (1.5, (6.07, 7.06, 7.60)),
    ],
)
def test_effective_variances(weights, published):
    """n = 200, 500, 1000; E |A^T u|^2 = 1 + sigma_n^2/n. The uniform row prints its limit."""
    sizes = (200, 500, 1000)
    laws = {"exponential": gamma_variance, "uniform": uniform_variance}
    found = [laws[weights](n) if weights in laws else float(effective_variance(weights**2, n)) for n in sizes]
    assert found == pytest.approx(published, rel=1e-3, abs=6e-4)


def test_the_gap_of_light_weights_has_its_closed_expansion():
    """1 - 2 sigma_n/sqrt(n) + sigma_n^2/(2 n) + 0.76 sigma_n n^(-7/6): to 2e-4 at n = 300 and 1000, exponential weights."""
    for n in (300, 1000):
        sigma = math.sqrt(gamma_variance(n))
        one = OneLayer(n=n, model="iid", weights="exponential", beta=None, width=n, value_width=n)
        gap = width_predictions(one)["spectral_gap"].value
        closed = 1 - 2 * sigma / math.sqrt(n) + sigma**2 / (2 * n) + 0.76 * sigma * n ** (-7 / 6)
        assert gap == pytest.approx(closed, abs=4e-4)


def test_the_edge_has_a_term_that_the_table_leaves_out():
    """xi: -1.2065 + 2^(2/3) kappa n^(-1/3), kappa = 2 for exponential weights: its table has no second term."""
    edge = EdgeFluctuation(600, None, weights="exponential")
    assert edge.shift == pytest.approx(2 ** (2 / 3) * 2 * 600 ** (-1 / 3), rel=0.02)


ENTRIES = [  # beta; measured and predicted sqrt(n) s_2 of the table at n = 200, 500, 1000
    (SQRT_LN2, (2.21, 2.15, 2.06), (2.28, 2.13, 2.04)),
    (1.0, (2.94, 2.95, 3.08), (3.02, 2.98, 2.91)),
    (1.5, (7.7, 9.5, 10.4), (8.2, 9.8, 10.8)),
]


@pytest.mark.parametrize(("beta", "measured", "published"), ENTRIES)
def test_the_entry_rule(beta, measured, published):
    """Within the 10 % asked of what was measured, 12 % of what was printed; 2 sigma alone is 40 % off at beta = 1.5.

    The printed column is not the printed rule, which at expected count one gives 2.13 2.06 2.02, 3.13 3.07 2.99 and
    10.7 12.4 13.4; the package takes the median entry and divides by its row.
    """
    for n, seen, printed in zip((200, 500, 1000), measured, published, strict=True):
        ours = width_predictions(OneLayer(n=n, model="iid", beta=beta, width=n, value_width=n))["second_singular_value"]
        assert ours.value * math.sqrt(n) == pytest.approx(seen, rel=0.10)
        assert ours.value * math.sqrt(n) == pytest.approx(printed, rel=0.12)
        z = -float(special.ndtri(1 / n**2))
        theta, variance = math.exp(beta * z - beta**2 / 2) / math.sqrt(n), float(effective_variance(beta**2, n))
        if beta == 1.5:  # negative control: the rule as printed
            assert theta + variance / theta > 1.2 * printed


def test_outliers_persist_up_to_a_share_of_the_condensation_point():
    """theta > sigma for beta > (1 - 1/sqrt 2) sqrt(ln n), .207 of sqrt(2 ln n); beta = 1.5 joins the bulk beyond 1e9 only.

    z ~ sqrt(4 ln n) of the largest of n^2, at ln n = 10^4: the crossing is within 2 % of its limit.
    """
    assert Layer(10**9, 1.5).largest_entry > math.sqrt(math.expm1(2.25))
    log_n = 1e4
    beta = np.linspace(0.1, 0.5, 4001) * math.sqrt(2 * log_n)
    outside = beta * math.sqrt(4 * log_n) - beta**2 / 2 - log_n / 2 > beta**2 / 2
    assert beta[np.argmax(outside)] / math.sqrt(2 * log_n) == pytest.approx(
        (1 - 1 / math.sqrt(2)) / math.sqrt(2), rel=0.02
    )


@pytest.mark.parametrize(
    ("share", "n", "published", "rel"), [(0.3, 1000, 0.0035, 0.05), (2.0, 10000, 0.535, 0.05), (1.2, 10000, 0.30, 0.05)]
)
def test_participation_in_units_of_the_condensation_point(share, n, published, rel):
    """E sum_j A_ij^2 at beta = share sqrt(2 ln n), by the exact integral."""
    assert (float(effective_variance(share**2 * 2 * math.log(n), n)) + 1) / n == pytest.approx(published, rel=rel)


PROPORTIONAL = [  # ratios of the Gaussian factors, beta, edge, m_2/m_1^2 as printed
    ((1,), 0.5, 1.338, 2.775),
    ((4,), 0.5, 1.785, 5.10),
    ((1, 1, 1), 0.5, 1.771, 4.32),
    ((4, 4, 4), 0.5, 2.893, 11.3),
    ((1,), 1.0, 3.002, 2.34),
    ((4,), 1.0, 3.783, 3.36),
    ((1, 1, 1), 1.0, 3.750, 3.02),
    ((4, 4, 4), 1.0, 5.896, 6.06),
]


@pytest.mark.parametrize(("ratios", "beta", "published", "moments"), PROPORTIONAL)
def test_edges_and_moments_of_the_proportional_regime(ratios, beta, published, moments):
    """alpha Z + beta G, G G^T of S-transform 1/[(1 + s) prod (1 + c s)]: min over psi of z(psi), and 2 + C beta^4/sigma^4."""
    b, rest = beta**2, math.expm1(beta**2) - beta**2
    psi = np.geomspace(1e-4, 10, 400001)
    p = b * (1 + psi) * np.prod([1 + c * psi for c in ratios], axis=0) / psi
    closed = math.sqrt(np.min((1 + psi) * (p + rest) ** 2 / p))
    assert closed == pytest.approx(published, abs=6e-4)
    assert 2 + sum(ratios) * b**2 / math.expm1(b) ** 2 == pytest.approx(moments, rel=3e-3)


@pytest.mark.slow
@pytest.mark.parametrize("case", [PROPORTIONAL[0], PROPORTIONAL[1], PROPORTIONAL[4], PROPORTIONAL[5]])
def test_edges_of_the_proportional_regime_by_free_calculus(case):
    """The rectangular free sum of noise and of a free product of Marchenko-Pastur laws, independent of the recipe."""
    (ratio,), beta, published, _ = case
    b, rest = beta**2, math.expm1(beta**2) - beta**2
    linear = free_product(MarchenkoPastur(1.0, b), MarchenkoPastur(float(ratio)))
    law = rectangular_free_sum(linear, MarchenkoPastur(1.0, rest), ratio=1.0)
    assert math.sqrt(law.support[-1, 1]) == pytest.approx(published, abs=6e-4)


def test_the_top_value_without_its_last_term():
    """n (s_1^2 - 1) = sigma^2 + n (beta^4/2) h, h = 1/d_k or 2/d + 1/d_k: 2.22 3.72 3.22 7.72 at n = 1000, beta = 1.

    The table's formula; the package adds the normaliser's 1/n and the noise, under 8 % here.
    """
    sigma2 = math.expm1(1.0)
    for h, published in ((1 / 1000, 2.22), (1 / 250, 3.72), (3 / 1000, 3.22), (2 / 250 + 1 / 250, 7.72)):
        assert sigma2 + 1000 / 2 * h == pytest.approx(published, abs=6e-3)
    for head_dim, published in ((1000, 2.22), (250, 3.72)):
        assert 1000 * (Layer(1000, 1.0, head_dim).top_squared - 1) == pytest.approx(published, rel=0.03)


def test_stable_ranks_of_the_fixed_head_width():
    """Gram form less one at n = 1500: (1 - r^2)^-d_k - 1 of the limit and 2 sigma^4/n of the noise; .1429 and .0358.

    The table calls it the stable rank; the ordinary one tends to (1 - r)^-d_k, near e.
    """
    for head_dim, published in ((8, 0.1429), (32, 0.0358)):
        values = mehler_singular_values(1.0, head_dim, 4000)
        excess = np.sum((values / values[0]) ** 4) - 1 + 2 * math.expm1(1.0) ** 2 / 1500
        assert excess == pytest.approx(published, abs=2e-4)


@pytest.mark.parametrize(
    ("n", "head_dim", "beta", "published"), [(2000, 256, 1.0, 0.1005), (2000, 32, 1.5, 0.3247), (2000, 16, 1.0, 0.2835)]
)
def test_edges_of_all_degrees(n, head_dim, beta, published):
    law = HermiteLaw(n, math.expm1(beta**2), beta, head_dim)
    assert math.sqrt(law.edge().square / n) == pytest.approx(published, rel=5e-3)


def test_the_removed_rank_of_key_query_logits():
    """T = d = d_k, beta = 1: .0538 of T. lambda_+ = min z (1 + Psi), second moment 3 sigma^4 + beta^4; beta -> 0: .0445."""
    for beta, published in ((1.0, 0.0538), (1e-3, 0.0445)):
        b, sigma2 = beta**2, math.expm1(beta**2)
        rest, psi = sigma2 - b, np.geomspace(1e-3, 10, 400001)
        p = b * (1 + psi) ** 2 / psi
        z, further = (1 + psi) * (p + rest) ** 2 / p, psi + (1 + psi) * rest / p
        assert (3 * sigma2**2 + b**2) / np.min(z * (1 + further)) ** 2 == pytest.approx(published, abs=6e-5)
    n = 10**5
    one = OneLayer(
        n=n,
        model="keyquery",
        head_dim=n,
        beta=0.83,
        tokens="orthonormal",
        width=n,
        value_width=n,
        variant="outlier_removed",
    )
    b, sigma2 = 0.83**2, math.expm1(0.83**2)
    psi = np.geomspace(1e-3, 10, 400001)
    p = b * (1 + psi) ** 2 / psi
    z, further = (1 + psi) * (p + sigma2 - b) ** 2 / p, psi + (1 + psi) * (sigma2 - b) / p
    share = (3 * sigma2**2 + b**2) / np.min(z * (1 + further)) ** 2
    assert width_predictions(one)["gram_stable_rank"].value / n == pytest.approx(share, rel=0.02)


@pytest.mark.slow
def test_a_skip_beside_the_repaired_branch():
    """A_perp X_0 W + X_0, T = d, sigma = 1: edge 3.049, Gram stable rank .0926 T, by the package's free calculus."""
    law = rectangular_free_sum(FussCatalan(2), point_mass(1.0), ratio=1.0)
    edge = law.support[-1, 1]
    assert math.sqrt(edge) == pytest.approx(3.049, abs=6e-4)
    assert law.moment(2) / edge**2 == pytest.approx(0.0926, abs=6e-5)


def test_second_moments_along_depth():
    """n = 50, sigma = 1: ||P||^2 1.897 1.034 1.019 1.018, residual .879 1.58e-2 2.83e-4 5.1e-6 (layers 1 to 4)."""
    variance = float(effective_variance(math.log(2), 50))
    energies = [state.energy for state in moments_along_depth(50, variance, 4)[1:]]
    residuals = [residual_energy(50, variance, number) for number in range(1, 5)]
    assert energies / np.array([1.897, 1.034, 1.019, 1.018]) == pytest.approx(np.ones(4), rel=2e-3)
    assert residuals / np.array([0.879, 1.58e-2, 2.83e-4, 5.1e-6]) == pytest.approx(np.ones(4), rel=1e-2)


def test_norms_of_products():
    """sqrt((l+1)^(l+1)/l^l): 2 2.60 3.08 3.49 3.86, the end of Fuss-Catalan."""
    for number, published in enumerate((2, 2.60, 3.08, 3.49, 3.86), start=1):
        edge = HermiteLaw(400, 1.0).edge(factors=[1.0] * (number - 1) if number > 1 else []).square
        assert math.sqrt(edge) == pytest.approx(published, abs=6e-3)


def test_lyapunov_exponents():
    """n = 30, beta = .3: k = 1, 2, 6, 15, 28."""
    found = lyapunov_exponents(30, float(effective_variance(0.09, 30)))
    assert found[[1, 2, 6, 15, 28]] == pytest.approx([-2.923, -2.941, -3.021, -3.269, -4.531], abs=3e-3)


@pytest.mark.parametrize(
    ("norm", "published"),
    [("post", {4: 0.153, 7: 0.596, 10: 0.920, 14: 0.994}), ("pre", {4: 0.140, 7: 0.460, 10: 0.704, 14: 0.837})],
)
def test_cosines_with_norms_and_skips(norm, published):
    """T = 80, sigma = 1, wide values: the table's ratios of expectations, with an equal average of 1e-3 here."""
    variance = float(effective_variance(math.log(2), 80))
    found = cosines_along_depth(80, variance, 14, width=10**9, skip=1.0, norm=norm)
    for number, value in published.items():
        assert found[number - 1] == pytest.approx(value, rel=0.04)


def test_cosine_without_norms():
    """T = 80, s = 1, 10 layers: .920 (uniform attention .9275); s^2 = .1: .0194."""
    variance = float(effective_variance(math.log(2), 80))
    assert cosines_along_depth(80, variance, 10, width=10**9, skip=1.0)[-1] == pytest.approx(0.920, abs=3e-3)
    assert cosines_along_depth(80, 0.0, 10, width=10**9, skip=1.0)[-1] == pytest.approx(0.9275, abs=1e-3)
