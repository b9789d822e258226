"""Backends: explicit, lazy, and honest about a missing device."""

import subprocess
import sys

import numpy as np
import pytest

from rmt.arrays import CPU, GPU, Backend, gpu_unavailable, to_host


def test_cpu_is_numpy_and_copies_nothing():
    x = np.arange(3.0)
    assert CPU.xp is np
    assert CPU.asarray(x) is x and to_host(x) is x
    assert CPU.asarray(x, np.float32).dtype == np.float32
    assert 2**20 < CPU.memory() < 2**50


def test_missing_device_is_named_with_its_reason():
    reason = gpu_unavailable()
    if reason is None:
        pytest.skip("a device is present")
    assert len(reason.splitlines()) == 1
    with pytest.raises(ValueError, match="device gpu is not available") as error:
        GPU.asarray(np.zeros(2))
    assert reason in str(error.value) and "--device cpu" in str(error.value)


def test_a_broken_installation_is_a_reason_not_a_traceback(monkeypatch):
    class Broken:
        def find_spec(self, name, *_):
            if name == "cupy":
                raise RuntimeError("libcuda.so.1 cannot be opened\nmore lines")

    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    assert gpu_unavailable() == "CuPy does not load: libcuda.so.1 cannot be opened"


def test_unknown_device_is_refused():
    with pytest.raises(ValueError, match="'tpu' is unknown; choose cpu or gpu"):
        Backend("tpu")


def test_importing_ensembles_loads_neither_numba_nor_cupy():
    code = (
        "import sys, rmt.arrays, rmt.ensembles.markov, rmt.ensembles.attention, rmt.ensembles.tokens;"
        "print([m for m in ('numba', 'cupy', 'scipy', 'matplotlib', 'pandas') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
