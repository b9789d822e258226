"""Tokens from a file: named with a digest of their content, refused in one line when unusable."""

import numpy as np
import pytest

from rmt.ensembles.token_files import is_file, named, tokens_from


def test_the_name_changes_with_the_content(tmp_path):
    path = tmp_path / "tokens.npy"
    np.save(path, np.eye(4))
    name = named(str(path))
    assert is_file(name) and named(name) == name and tokens_from(name).shape == (4, 4)
    np.save(path, np.ones((4, 4)))
    assert named(str(path)) != name
    with pytest.raises(ValueError, match="its content has changed"):
        named(name)


@pytest.mark.parametrize(
    "array", [np.ones(3), np.full((2, 2), np.nan), np.ones((2, 2), dtype=complex), np.ones((0, 3))]
)
def test_unusable_arrays(array, tmp_path):
    path = tmp_path / "tokens.npy"
    np.save(path, array)
    with pytest.raises(ValueError, match=r"needs finite numbers \(tokens, width\)"):
        named(str(path))


def test_missing_and_foreign_files(tmp_path):
    with pytest.raises(ValueError, match=r"missing.npy: cannot be read \(No such file"):
        named(str(tmp_path / "missing.npy"))
    (tmp_path / "text.npy").write_text("not an array")
    with pytest.raises(ValueError, match=r"text.npy: cannot be read as a .npy array"):
        named(str(tmp_path / "text.npy"))
