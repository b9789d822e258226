"""A law given by a table, against the law that the table was made from."""

import numpy as np
import pytest

from rmt.laws.law import SpectralLaw
from rmt.laws.quarter_circle import QuarterCircle
from rmt.laws.tabulated import TabulatedLaw

EXACT = QuarterCircle(1.0)


def table():
    x = np.unique(np.concatenate([np.geomspace(1e-4, 0.3, 60), np.linspace(0.3, 2.0, 200)]))
    p = EXACT.cdf(x)
    p[-1] = 1.0
    return TabulatedLaw(x, p)


def test_a_fine_table_is_the_law():
    law = table()
    assert isinstance(law, SpectralLaw)
    x = np.linspace(0.01, 1.99, 50)
    assert law.cdf(x) == pytest.approx(EXACT.cdf(x), abs=1e-4)
    assert law.density(x) == pytest.approx(EXACT.density(x), abs=6e-3)
    assert law.cdf(law.quantile([0.1, 0.5, 0.9])) == pytest.approx([0.1, 0.5, 0.9], abs=1e-9)
    assert [law.moment(k) for k in (0, 1, 2, 4)] == pytest.approx([EXACT.moment(k) for k in (0, 1, 2, 4)], rel=1e-4)
    z = np.array([0.5 + 0.1j, 3.0 + 1e-9j, 1j])
    assert law.stieltjes(z) == pytest.approx(EXACT.stieltjes(z), abs=1e-3)


def test_below_the_table_the_law_goes_to_zero_slowly():
    law = table()
    assert 0 < law.cdf(1e-8) < law.cdf(1e-4) == pytest.approx(law.p[0])
    assert law.cdf(0.0) == 0 and law.cdf(5.0) == 1 and law.density(-1.0) == 0


def test_a_table_must_be_a_distribution():
    with pytest.raises(ValueError, match="ascends"):
        TabulatedLaw(np.arange(1.0, 6), np.array([0, 0.5, 0.4, 0.9, 1]))
    with pytest.raises(ValueError, match="four"):
        TabulatedLaw(np.arange(1.0, 3), np.array([0, 1.0]))
