"""Free sums and products against sampled matrices: Kolmogorov distance of one spectrum to the law.

Eigenvalues repel, so the distance falls like (log n)/n and not like n^(-1/2): at n = 2000 it is below .005 when the law
is right. Bounds: .01 at n = 2000 (slow), .02 at n = 500. Each case carries a wrong law that fails the same bound.
"""

import numpy as np
import pytest

from rmt.laws.additive import free_sum
from rmt.laws.empirical import EmpiricalLaw
from rmt.laws.marchenko_pastur import MarchenkoPastur
from rmt.laws.multiplicative import free_product
from rmt.laws.powers import compression
from rmt.laws.rectangular import rectangular_free_sum
from rmt.laws.semicircle import Semicircle

SIGNS = EmpiricalLaw([-1.0, 1.0])


def wigner(n, variance, rng):
    g = rng.standard_normal((n, n))
    return (g + g.T) * np.sqrt(variance / (2 * n))


def gram(n, ratio, rng):
    x = rng.standard_normal((n, round(n / ratio)))
    return x @ x.T / x.shape[1]


def marchenko_pastur_and_semicircle(n, rng):
    values = np.linalg.eigvalsh(gram(n, 0.5, rng) + wigner(n, 1.0, rng))
    return values, free_sum(MarchenkoPastur(0.5), Semicircle(1.0)), free_sum(MarchenkoPastur(0.5), Semicircle(1.2))


def two_products(n, rng):
    """The nonzero eigenvalues of X X^T Y Y^T are the squared singular values of X^T Y."""
    x, y = rng.standard_normal((n, 2 * n)) / np.sqrt(2 * n), rng.standard_normal((n, n // 2)) / np.sqrt(n // 2)
    values = np.zeros(n)
    values[: n // 2] = np.linalg.svd(x.T @ y, compute_uv=False) ** 2
    right, wrong = MarchenkoPastur(2.0), MarchenkoPastur(1.8)
    return values, free_product(MarchenkoPastur(0.5), right), free_product(MarchenkoPastur(0.5), wrong)


def two_atoms(variance):
    def case(n, rng):
        values = np.linalg.eigvalsh(np.diag(np.sign(np.arange(n) - n / 2 + 0.5)) + wigner(n, variance, rng))
        return values, free_sum(SIGNS, Semicircle(variance)), free_sum(SIGNS, Semicircle(1.3 * variance))

    return case


def singular_gram_and_small_noise(n, rng):
    """Ratio 2: half the eigenvalues are 0 and become a small semicircle of variance .02 (1 - 1/ratio)."""
    values = np.linalg.eigvalsh(gram(n, 2.0, rng) + wigner(n, 0.02, rng))
    right, wrong = Semicircle(0.02), Semicircle(0.03)
    return values, free_sum(MarchenkoPastur(2.0), right), free_sum(MarchenkoPastur(2.0), wrong)


def corner(n, rng):
    """The upper left 0.4 n x 0.4 n block of a rotated two-point matrix plus noise."""
    whole = wigner(n, 0.2, rng) + np.diag(np.where(np.arange(n) < n // 2, 0.0, 2.0))
    q = np.linalg.qr(rng.standard_normal((n, n)))[0][: round(0.4 * n)]
    law = free_sum(EmpiricalLaw([0.0, 2.0]), Semicircle(0.2))
    return np.linalg.eigvalsh(q @ whole @ q.T), compression(law, 0.4), compression(law, 0.5)


def signal_and_rectangular_noise(n, rng):
    """Half the singular values 2, half 0, and noise: n x 2n."""
    m = 2 * n
    signal = np.zeros((n, m))
    signal[np.arange(n // 2), np.arange(n // 2)] = 2.0
    values = np.linalg.svd(signal + rng.standard_normal((n, m)) / np.sqrt(m), compute_uv=False) ** 2
    right, wrong = EmpiricalLaw([0.0, 4.0]), EmpiricalLaw([0.0, 4.4])
    return (
        values,
        rectangular_free_sum(right, MarchenkoPastur(0.5), ratio=0.5),
        rectangular_free_sum(wrong, MarchenkoPastur(0.5), ratio=0.5),
    )


CASES = [
    marchenko_pastur_and_semicircle,
    two_products,
    pytest.param(two_atoms(0.5), id="two_atoms_apart"),
    pytest.param(two_atoms(1.0), id="two_atoms_merging"),
    pytest.param(two_atoms(2.0), id="two_atoms_merged"),
    singular_gram_and_small_noise,
    corner,
    signal_and_rectangular_noise,
]


def kolmogorov(values, law):
    values = np.sort(values)
    steps = np.arange(values.size + 1) / values.size
    inside = values > 1e-9 if len(law.atoms) else np.ones(values.size, bool)  # exact zeros belong to the atom
    at = law.cdf(values)
    return np.maximum(np.abs(at - steps[1:]), np.abs(at - steps[:-1]))[inside].max()


@pytest.mark.parametrize("case", CASES)
def test_small_matrices(case):
    values, law, wrong = case(500, np.random.default_rng(20261130))
    assert kolmogorov(values, law) < 0.02
    assert kolmogorov(values, wrong) > 0.02


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_large_matrices(case):
    values, law, wrong = case(2000, np.random.default_rng(20261130))
    assert kolmogorov(values, law) < 0.01
    assert kolmogorov(values, wrong) > 0.01


def test_the_cubic_of_two_atoms_and_noise():
    """Independent oracle: G = w/(w^2 - 1) at w = z - v G is a cubic in G; its roots by companion matrix."""
    v = 0.7
    law = free_sum(SIGNS, Semicircle(v))
    for x in np.linspace(0.3, 2.2, 20):
        # v^2 G^3 - 2 v x G^2 + (x^2 - 1 + v) G - x = 0
        roots = np.roots([v * v, -2 * v * x, x * x - 1 + v, -x])
        assert law.density(x) == pytest.approx(max(-roots.imag.min(), 0) / np.pi, abs=1e-9)


def test_the_spectrum_of_one_matrix_plus_noise():
    """An empirical law of 400 atoms: the support and the mass are found, and the noisy matrix has this law."""
    rng = np.random.default_rng(20261130)
    values = np.linalg.eigvalsh(gram(400, 0.5, rng))
    law = free_sum(EmpiricalLaw(values), Semicircle(0.3))
    assert abs(law.mass_error) < 1e-10
    noisy = np.linalg.eigvalsh(np.diag(values) + wigner(400, 0.3, rng))
    assert kolmogorov(noisy, law) < 0.02
    assert kolmogorov(noisy, free_sum(EmpiricalLaw(values), Semicircle(0.5))) > 0.02
