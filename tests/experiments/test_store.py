"""The store: keys, damage, concurrent writers, kill and resume."""

import dataclasses
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from rmt.experiments.run import run
from rmt.experiments.store import DamagedBlock, Store
from rmt.experiments.tasks import block_size, blocks, plan
from tests.experiments.toy import EXPERIMENT, Setting

TOY = os.path.join(os.path.dirname(__file__), "toy.py")


def task(**changes):
    setting = changes.pop("setting", Setting())
    made = plan(EXPERIMENT, [setting], draws=4, seed=0, dtype="float32", spectrum="none")[0]
    return dataclasses.replace(made, **changes)


def test_blocks_hold_four_draws_and_one_from_8192_on():
    assert list(blocks(10, 4)) == [(0, 4), (4, 4), (8, 2)]
    assert block_size(Setting(n=8191)) == 4
    assert block_size(Setting(n=8192)) == 1


def test_a_key_changes_with_whatever_decides_the_numbers_and_with_nothing_else():
    changed = [
        task(setting=Setting(n=65)),
        task(setting=Setting(spread=2.0)),
        task(seed=1),
        task(dtype="float64"),
        task(spectrum="full"),
        task(first=4),
        task(count=2),
        task(version=2),
        task(name="other"),
    ]
    keys = {task().key, *(other.key for other in changed)}
    assert len(keys) == len(changed) + 1
    assert task(module="elsewhere").key == task().key


def test_a_block_survives_the_round_trip(tmp_path):
    store = Store(tmp_path)
    arrays = {"mean": np.arange(4.0), "ranked": np.ones((4, 2))}
    assert store.read(task()) is None
    store.write(task(), arrays, {"seconds": 1.0})
    held, provenance = store.read(task())
    assert all(np.array_equal(held[name], arrays[name]) for name in arrays)
    assert provenance["seconds"] == 1.0 and provenance["task"]["seed"] == 0


def test_a_short_last_block_is_cut_out_of_the_whole_one(tmp_path):
    store = Store(tmp_path)
    store.write(task(), {"mean": np.arange(4.0)}, {})
    held, _ = store.read(task(count=2))
    assert np.array_equal(held["mean"], [0.0, 1.0])


@pytest.mark.parametrize("keep", [0, 1, 10, 0.5, 0.99])
def test_a_block_cut_short_is_damaged_never_misread(tmp_path, keep):
    store = Store(tmp_path)
    store.write(task(), {"mean": np.arange(4.0)}, {})
    path = store.path(task())
    whole = path.read_bytes()
    path.write_bytes(whole[: int(keep * len(whole)) if isinstance(keep, float) else keep])
    with pytest.raises(DamagedBlock):
        store.read(task())


def test_a_flipped_byte_is_damage(tmp_path):
    store = Store(tmp_path)
    store.write(task(), {"mean": np.arange(400.0)[:4]}, {})
    path = store.path(task())
    content = bytearray(path.read_bytes())
    content[content.index(np.float64(3.0).tobytes()) + 6] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(DamagedBlock):
        store.read(task())


def test_a_damaged_block_is_recomputed_and_said(tmp_path, capsys):
    first = run(EXPERIMENT, n=16, draws=8, out=str(tmp_path), quiet=True)
    victim = sorted((tmp_path / "toy").glob("*.npz"))[0]
    victim.write_bytes(victim.read_bytes()[:100])
    again = run(EXPERIMENT, n=16, draws=8, out=str(tmp_path), quiet=True)
    assert "damaged block" in capsys.readouterr().err
    assert np.array_equal(first.draws("mean"), again.draws("mean"))


def test_more_draws_compute_only_the_new_blocks(tmp_path):
    run(EXPERIMENT, n=16, draws=8, out=str(tmp_path), quiet=True)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "toy").glob("*.npz")}
    results = run(EXPERIMENT, n=16, draws=16, out=str(tmp_path), quiet=True)
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "toy").glob("*.npz")}
    assert len(before) == 2 and len(after) == 4
    assert all(after[path] == before[path] for path in before)
    assert results.draws("mean").shape == (16,)


def test_a_changed_flag_never_overwrites(tmp_path):
    run(EXPERIMENT, n=16, draws=4, out=str(tmp_path), quiet=True)
    held = {path.name: path.read_bytes() for path in (tmp_path / "toy").glob("*.npz")}
    run(EXPERIMENT, n=16, draws=4, seed=1, out=str(tmp_path), quiet=True)
    run(EXPERIMENT, n=16, draws=4, spread=2.0, out=str(tmp_path), quiet=True)
    assert all((tmp_path / "toy" / name).read_bytes() == content for name, content in held.items())


def test_fresh_computes_again(tmp_path):
    run(EXPERIMENT, n=16, draws=4, out=str(tmp_path), quiet=True)
    (path,) = (tmp_path / "toy").glob("*.npz")
    before = path.stat().st_mtime_ns
    run(EXPERIMENT, n=16, draws=4, out=str(tmp_path), fresh=True, quiet=True)
    assert path.stat().st_mtime_ns > before


def arrays_of(folder):
    found = {}
    for path in sorted((folder / "toy").glob("[!.]*.npz")):
        with np.load(path) as block:
            found[path.name] = {name: block[name].tobytes() for name in block.files if name != "provenance.json"}
    return found


def command(folder, *more):
    return [sys.executable, TOY, "--n", "16", "32", "--draws", "12", "--out", str(folder), *more]


@pytest.mark.parametrize("executor", ["serial", "processes"])
def test_a_run_killed_at_random_moments_resumes_to_the_same_arrays(tmp_path, executor):
    """kill -9 at moments from a fixed generator, then one whole run: the same arrays as a run left alone."""
    environment = {**os.environ, "TOY_SLEEP": "0.03"}
    moments = random.Random(f"kill {executor}")
    more = ("--executor", executor, "--workers", "2", "--format", "json")
    for _ in range(3):
        victim = subprocess.Popen(
            command(tmp_path / "killed", *more),
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(moments.uniform(0.4, 1.6))
        victim.send_signal(signal.SIGKILL)
        victim.wait()
    subprocess.run(command(tmp_path / "killed", *more), check=True, stdout=subprocess.DEVNULL)
    subprocess.run(command(tmp_path / "alone", "--executor", "serial"), check=True, stdout=subprocess.DEVNULL)
    assert len(arrays_of(tmp_path / "alone")) == 6
    assert arrays_of(tmp_path / "killed") == arrays_of(tmp_path / "alone")


def test_two_runs_at_once_share_a_store(tmp_path):
    environment = {**os.environ, "TOY_SLEEP": "0.02"}
    both = [subprocess.Popen(command(tmp_path / "shared"), env=environment, stdout=subprocess.DEVNULL) for _ in "ab"]
    assert [one.wait() for one in both] == [0, 0]
    subprocess.run(command(tmp_path / "alone"), check=True, stdout=subprocess.DEVNULL)
    assert arrays_of(tmp_path / "shared") == arrays_of(tmp_path / "alone")


def test_shards_fill_one_store(tmp_path):
    for shard in ("1/2", "2/2"):
        subprocess.run(command(tmp_path / "sharded", "--shard", shard), check=True, stdout=subprocess.DEVNULL)
    subprocess.run(command(tmp_path / "alone"), check=True, stdout=subprocess.DEVNULL)
    assert arrays_of(tmp_path / "sharded") == arrays_of(tmp_path / "alone")


def test_a_store_below_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="cannot be made a folder"):
        Store(tmp_path / "file" / "store")
