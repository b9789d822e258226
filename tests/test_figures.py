"""Figures: recipes, gaps, and a style that leaves nothing behind."""

import matplotlib
import numpy as np
import pytest

from rmt import figures


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_a_recipe_comes_back_from_the_file(tmp_path, suffix):
    recipe = {"command": "python -m x --beta '<&>' é", "seed": 3, "keys": ["a", "b"]}
    with figures.style():
        page, _ = figures.page(1, 1)
    written = figures.save(page, tmp_path / f"f{suffix}", recipe=recipe)
    assert len(written) == (2 if suffix == ".png" else 1)
    assert all(figures.read_recipe(path) == recipe for path in written)
    assert not list(tmp_path.glob(".writing*"))


def test_a_pdf_is_written_with_its_recipe(tmp_path):
    with figures.style():
        page, _ = figures.page(1, 1)
    (path,) = figures.save(page, tmp_path / "f.pdf", recipe={"seed": 5})
    assert path.read_bytes().startswith(b"%PDF")


def test_the_style_leaves_nothing_behind():
    before = dict(matplotlib.rcParams)
    with figures.style():
        assert matplotlib.rcParams["axes.spines.top"] is False
        figures.page(2, 1)
    assert dict(matplotlib.rcParams) == before


def test_theory_with_gaps_and_a_single_point_are_drawn():
    x = np.array([10.0, 100.0, 1000.0])
    gap = np.array([np.nan, 0.5, 0.2])
    with figures.style():
        page, axes = figures.page(1, 1)
        curve = figures.Curve("a", x, gap, 0.9 * gap, 1.1 * gap)
        point = figures.Points("a", x[:1], x[:1] / 20, x[:1] / 25, x[:1] / 15)
        figures.scaling(axes[0, 0], [curve], [point], xlabel="n", ylabel="s")
        page.canvas.draw()
    assert len(axes[0, 0].get_legend().get_texts()) == 2


def test_theory_at_one_size_is_marked_and_theory_without_a_number_is_no_entry():
    x, none = np.array([10.0, 100.0, 1000.0]), np.full(3, np.nan)
    alone = np.array([np.nan, 0.5, np.nan])
    with figures.style():
        page, axes = figures.page(1, 1)
        curves = [figures.Curve("a", x, alone, alone, alone), figures.Curve("b", x, none, none, none)]
        figures.scaling(axes[0, 0], curves, [], xlabel="n", ylabel="s")
        page.canvas.draw()
    (line,) = axes[0, 0].get_lines()
    assert (line.get_marker(), line.get_markevery()) == ("_", [1])
    assert [text.get_text() for text in axes[0, 0].get_legend().get_texts()] == ["theory, a"]


def test_five_series_are_too_many_for_one_panel():
    with pytest.raises(ValueError, match="at most 4"):
        figures.looks(list("abcde"))


def test_a_panel_of_zeros_is_linear_and_draws_without_a_warning(tmp_path):
    """No value is positive: a logarithmic axis would warn. Warnings are errors in tests."""
    figure, axes = figures.page(1, 1)
    zeros = np.zeros(2)
    points = figures.Points("zero", np.array([1.0, 2.0]), zeros, zeros, zeros)
    figures.scaling(axes[0, 0], [], [points], xlabel="x", ylabel="y")
    assert axes[0, 0].get_yscale() == "linear"
    figures.save(figure, tmp_path / "zero.png", recipe={})
