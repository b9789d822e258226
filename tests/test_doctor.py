"""The doctor answers every topic, in words and as JSON."""

import json

from rmt.doctor import main


def test_the_doctor_tells_what_is_here_and_why_something_is_not(capsys):
    assert main(["--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"python", "platform", "packages", "cores", "memory", "blas", "numba", "gpu", "caches"}
    assert found["gpu"].startswith(("available", "unavailable: "))
    assert main([]) == 0
    assert "rmt doctor" in capsys.readouterr().out
    assert main(["--format", "xml"]) == 2


def test_the_doctor_names_the_folder_that_kernels_are_cached_in(monkeypatch, tmp_path):
    from rmt.doctor import examine

    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert examine()["caches"]["compiled kernels"].endswith("rmt/numba")
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/elsewhere")
    assert examine()["caches"]["compiled kernels"] == "/elsewhere"
