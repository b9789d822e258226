"""Where compiled kernels are cached."""

import subprocess
import sys

import pytest

CODE = "import numba, rmt.kernels.cpu as c; print(c._gram_rows._cache.cache_path); print(numba.config.CACHE_DIR)"


@pytest.mark.parametrize(
    ("setting", "expected"), [("XDG_CACHE_HOME", "rmt/numba"), ("NUMBA_CACHE_DIR", "")], ids=["user", "chosen"]
)
def test_cache_folder(tmp_path, setting, expected):
    environment = {"PATH": "", setting: str(tmp_path), "HOME": str(tmp_path / "home")}
    command = [sys.executable, "-c", CODE]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    folder, left_to_others = run.stdout.splitlines()
    assert folder.startswith(str(tmp_path / expected) if expected else str(tmp_path))
    assert left_to_others == (str(tmp_path) if setting == "NUMBA_CACHE_DIR" else "")


def test_a_machine_without_any_writable_folder_still_computes():
    code = (
        "import numba.core.caching as caching\n"
        "caching.CacheImpl._locator_classes = []\n"
        "import numpy as np\n"
        "from rmt.kernels import cpu\n"
        "products = np.zeros((1, 1))\n"
        "cpu.gram_rows(np.full((1, 1), 2.0), np.ones((1, 1)), products)\n"
        "print(products[0, 0])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "4.0"
