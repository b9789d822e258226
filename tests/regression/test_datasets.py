"""Data from installed packages and one's own files: what they hold, and what is said when they are not there."""

import numpy as np
import pytest

from rmt.regression import datasets
from rmt.regression.datasets import MissingData, load_sentences, load_series
from rmt.regression.transformer_data import embedded_sentences, random_tokens, series_window
from rmt.streams import stream


def test_the_weather_is_four_standardised_variables():
    weather = load_series()
    assert weather.names == ("precipitation", "temp_max", "temp_min", "wind") and weather.values.shape == (1461, 4)
    assert np.allclose(weather.values.mean(axis=0), 0, atol=1e-12) and np.allclose(weather.values.std(axis=0), 1)


def test_a_window_holds_lags_and_the_next_day():
    weather = load_series()
    tokens, targets = weather.window(10, 16, 4)
    assert tokens.shape == (16, 16) and targets.shape == (16, 4)
    assert np.array_equal(tokens[5, 4:8], weather.values[10 + 3 + 5 - 1])  # token 5 at lag 1
    assert np.array_equal(targets[5], tokens[6, :4])
    last, _ = weather.window(weather.windows(16, 4) - 1, 16, 4)
    assert np.array_equal(last[-1, :4], weather.values[-2])


def test_windows_differ_between_draws_and_repeat():
    one, two = (series_window(load_series(), stream(1), draw, n=16, lags=4) for draw in (0, 1))
    again = series_window(load_series(), stream(1), 0, n=16, lags=4)
    assert np.array_equal(one.X, again.X) and not np.array_equal(one.X, two.X)
    with pytest.raises(ValueError, match="--n"):
        series_window(load_series(), stream(1), 0, n=2000, lags=4)


def test_correlated_tokens_share_the_normals_of_independent_ones():
    free, tied = (random_tokens(stream(2), 0, n=8, width=16, outputs=2, correlation=c) for c in (0.0, 0.9))
    shared = tied.X - np.sqrt(0.1) * free.X
    assert np.allclose(shared, shared[:, :1]) and np.array_equal(free.Y, tied.Y)


def test_a_missing_package_gives_the_install_command(monkeypatch):
    monkeypatch.setattr(datasets, "WEATHER", ("no_such_package", "weather.csv"))
    with pytest.raises(MissingData, match=r"pip install 'rmt-attention\[data\]'"):
        load_series.__wrapped__()


def test_a_csv_file_is_a_series(tmp_path):
    rows = "\n".join(f"2020-01-{day % 28 + 1:02d},{day},{day**2 % 7},1.0" for day in range(40))
    (tmp_path / "mine.csv").write_text("date,level,phase,constant\n" + rows + "\n")
    series = load_series(str(tmp_path / "mine.csv"))
    assert series.names == ("level", "phase") and len(series.values) == 40


@pytest.mark.parametrize("content", ["a,b\n1,2\n", "date,word\n" + "x,y\n" * 50, ""])
def test_a_csv_file_without_a_series_is_refused(content, tmp_path):
    (tmp_path / "bad.csv").write_text(content)
    with pytest.raises(ValueError, match=r"--data-file .*bad\.csv"):
        load_series(str(tmp_path / "bad.csv"))


def test_a_tsv_file_is_labelled_sentences(tmp_path):
    (tmp_path / "mine.tsv").write_text("sentence\tlabel\nIt's a good film, truly\t1\nA bad one\t0\n...\t0\n")
    found = load_sentences(str(tmp_path / "mine.tsv"))
    assert found.words == (("it's", "a", "good", "film", "truly"), ("a", "bad", "one")) and list(found.labels) == [
        1,
        -1,
    ]
    loss = embedded_sentences(found, stream(3), 0, n=4, width=8)
    assert loss.X.shape == (2, 4, 8) and np.array_equal(loss.X[0, 1], loss.X[1, 0])  # the word "a"
    assert not loss.X[1, 3].any() and loss.Y.shape == (2, 1)


def test_a_choice_of_sentences_differs_between_draws_and_keeps_pairs(tmp_path):
    lines = [f"word{t} common\t{t % 2}" for t in range(30)]
    (tmp_path / "mine.tsv").write_text("sentence\tlabel\n" + "\n".join(lines))
    found = load_sentences(str(tmp_path / "mine.tsv"))
    some, others = (embedded_sentences(found, stream(4), draw, n=2, width=8, count=10) for draw in (0, 1))
    whole = embedded_sentences(found, stream(4), 0, n=2, width=8)
    places = [int(np.flatnonzero((whole.X == X).all(axis=(1, 2)))[0]) for X in some.X]
    assert places == sorted(set(places)) and np.array_equal(whole.Y[places], some.Y)
    assert len(some.X) == 10 and not np.array_equal(some.Y, others.Y)


@pytest.mark.parametrize(
    "content, fragment",
    [
        ("text\tlabel\nx\t1\n", "first line"),
        ("sentence\tlabel\nx\t2\n", "line 2"),
        ("sentence\tlabel\nx\t1\n", "one label only"),
        ("", "first line"),
    ],
)
def test_a_tsv_file_that_cannot_be_used_is_refused(content, fragment, tmp_path):
    (tmp_path / "bad.tsv").write_text(content)
    with pytest.raises(ValueError, match=fragment):
        load_sentences(str(tmp_path / "bad.tsv"))


def test_a_file_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match=r"no_such\.tsv"):
        load_sentences("no_such.tsv")
    with pytest.raises(ValueError, match=r"no_such\.csv"):
        load_series("no_such.csv")


def test_sentences_are_found_inside_a_package_that_is_not_imported(tmp_path, monkeypatch):
    """A stand-in for gensim: one that fails on import, with three lines of the same format (latin-1)."""
    folder = tmp_path / "stand_in" / "test" / "test_data"
    folder.mkdir(parents=True)
    (tmp_path / "stand_in" / "__init__.py").write_text("raise RuntimeError('imported')")
    lines = "__label__neg dull , and naïve . \n__label__pos a joy , it's true . \nno label here\n"
    (folder / "lines.cor").write_text(lines, encoding="latin-1")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(datasets, "SENTENCES", ("stand_in", "test/test_data/lines.cor"))
    found = load_sentences.__wrapped__()
    assert found.words == (("dull", "and", "naïve"), ("a", "joy", "it's", "true")) and list(found.labels) == [-1, 1]


@pytest.mark.models
def test_the_packaged_sentences_are_balanced():
    """Needs gensim of the extra `data`, too large for the extra `test`."""
    found = load_sentences()
    assert len(found.words) == 200 and found.labels.sum() == 0 and 1000 < len(found.vocabulary) < 3000
