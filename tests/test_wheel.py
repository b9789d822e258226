"""The wheel: what a user without the checkout gets."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
def test_the_wheel_alone_predicts_cites_and_simulates(tmp_path):
    """It holds `rmt` and `simulations` and nothing else at the top, and works from an empty folder."""
    source = tmp_path / "source"  # a copy, so that no earlier build can lend its files
    for folder in ("rmt", "simulations"):
        shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, source)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(source)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("rmt_attention-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "site")
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"rmt", "simulations"}
    assert "rmt/theorems/references.bib" in names
    start = f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r}); import rmt; print(rmt.__file__); "
    start += "from rmt.experiments.cli import main; sys.exit(main(sys.argv[1:]))"
    (tmp_path / "empty").mkdir()
    for arguments, expected in (
        (["predict", "--n", "4096", "--beta", "1"], "second_singular_value"),
        (["cite", "width_collapse"], "@"),
        (["width_collapse", "--n", "64", "--draws", "2", "--no-figure", "--quiet"], "second_singular_value"),
    ):
        found = subprocess.run(
            [sys.executable, "-P", "-c", start, *arguments], cwd=tmp_path / "empty", capture_output=True, text=True
        )
        assert found.returncode == 0, found.stderr
        assert str(tmp_path / "site") in found.stdout and expected in found.stdout
