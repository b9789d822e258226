"""run from Python: flags of the wrong kind, and numbers that NumPy made."""

import numpy as np
import pytest

from rmt.experiments.run import run
from tests.experiments.toy import EXPERIMENT


@pytest.mark.parametrize(
    "flags, message",
    [
        ({"memory_budget": "8GB"}, "--memory-budget 8GB: must be a number of bytes >= 1"),
        ({"shard": "1/2"}, "--shard 1/2: must be a pair (i, k) with 1 <= i <= k"),
        ({"shard": (3, 2)}, "--shard (3, 2): must be a pair (i, k) with 1 <= i <= k"),
        ({"n": []}, "--n: no values; give one or several"),
    ],
)
def test_wrong_flags_from_python_are_told_as_on_the_command_line(flags, message, tmp_path):
    with pytest.raises(ValueError) as refusal:
        run(EXPERIMENT, out=str(tmp_path), **flags)
    assert str(refusal.value) == message


def test_numbers_of_numpy_are_numbers(tmp_path):
    sizes = np.array([16, 64])
    results = run(EXPERIMENT, n=sizes, spread=[np.float64(1.0)], draws=np.int64(4), out=str(tmp_path), quiet=True)
    assert [setting.n for setting in results.settings] == [16, 64]
    again = run(EXPERIMENT, n=(16, 64), spread=1.0, draws=4, out=str(tmp_path), quiet=True)
    assert results.provenance["keys"] == again.provenance["keys"]
