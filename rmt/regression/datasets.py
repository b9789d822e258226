"""Real data: a time series and labelled sentences, from packages that carry them inside or from one's own file.

Nothing is downloaded and nothing is copied: files are read where the installed package keeps them.
"""

from __future__ import annotations

import functools
import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

WEATHER = ("vega_datasets", "_data/seattle-weather.csv")
SENTENCES = ("gensim", "test/test_data/pang_lee_polarity.cor")
INSTALL = "pip install 'rmt-attention[data]'"


class MissingData(ValueError):
    """Data that are not there: one line that says how to get them."""


@dataclass(frozen=True, eq=False)
class Series:
    """A multivariate time series: `values` (times, variables), each variable with mean 0 and variance 1."""

    names: tuple[str, ...]
    values: np.ndarray

    def windows(self, n: int, lags: int) -> int:
        """How many windows of n tokens there are."""
        return len(self.values) - n - lags + 1

    def window(self, start: int, n: int, lags: int) -> tuple[np.ndarray, np.ndarray]:
        """Tokens (n, variables x lags), token t holding the values at t, t - 1, ...; targets (n, variables), those at t + 1."""
        times = start + lags - 1 + np.arange(n)
        tokens = np.concatenate([self.values[times - lag] for lag in range(lags)], axis=1)
        return tokens, self.values[times + 1]


@dataclass(frozen=True, eq=False)
class Sentences:
    """Labelled sentences: `words` of each, lower case, and `labels` (count,), +1 or -1."""

    words: tuple[tuple[str, ...], ...]
    labels: np.ndarray

    @functools.cached_property
    def vocabulary(self) -> dict[str, int]:
        """Every word with its place in alphabetical order."""
        return {word: at for at, word in enumerate(sorted({word for words in self.words for word in words}))}

    def tokens(self, chosen: np.ndarray, n: int, embedding: np.ndarray) -> np.ndarray:
        """(chosen, n, width): the vectors of the first n words of each, zero after the end of shorter sentences."""
        tokens = np.zeros((len(chosen), n, embedding.shape[1]))
        for row, at in enumerate(chosen):
            places = [self.vocabulary[word] for word in self.words[at][:n]]
            tokens[row, : len(places)] = embedding[places]
        return tokens


@functools.lru_cache(maxsize=8)
def load_series(path: str | None = None) -> Series:
    """Daily weather of Seattle, 2012 to 2015 (precipitation, highest, lowest temperature, wind), or a CSV file.

    Of a file, the numeric columns are taken and rows with gaps are left out. Raises MissingData or ValueError in one line.
    """
    import pandas

    file = Path(path) if path else _packaged(*WEATHER)
    try:
        table = pandas.read_csv(file)
    except (OSError, ValueError) as reason:
        raise ValueError(f"--data-file {file}: cannot be read as comma-separated columns ({_short(reason)})") from None
    numbers = table.select_dtypes("number").dropna()
    values = numbers.to_numpy(dtype=float)
    spread = values.std(axis=0) if len(values) else np.zeros(0)
    kept = spread > 0
    if len(values) < 32 or not kept.any():
        raise ValueError(
            f"--data-file {file}: holds {len(values)} rows of numbers that vary; give a series of 32 or more"
        )
    values = (values[:, kept] - values[:, kept].mean(axis=0)) / spread[kept]
    return Series(tuple(str(name) for name, keep in zip(numbers.columns, kept, strict=True) if keep), values)


@functools.lru_cache(maxsize=8)
def load_sentences(path: str | None = None) -> Sentences:
    """200 review sentences of Pang and Lee, half of them positive, or a TSV file with columns `sentence` and `label` (0/1).

    Raises MissingData or ValueError in one line.
    """
    pairs = _labelled_file(Path(path)) if path else _packaged_sentences()
    words = tuple(tuple(re.findall(r"[^\W_]+(?:'[^\W_]+)?", text.lower())) for text, _ in pairs)
    kept = [at for at, found in enumerate(words) if found]
    labels = np.array([pairs[at][1] for at in kept], dtype=float)
    if len(set(labels)) < 2:
        raise ValueError(f"--data-file {path}: holds one label only; give sentences with both")
    return Sentences(tuple(words[at] for at in kept), labels)


def _packaged_sentences() -> list[tuple[str, float]]:
    lines = _packaged(*SENTENCES).read_text(encoding="latin-1").splitlines()
    split = [line.split(maxsplit=1) for line in lines if line.startswith("__label__")]
    return [(text, 1.0 if label.endswith("pos") else -1.0) for label, text in split]


def _labelled_file(path: Path) -> list[tuple[str, float]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as reason:
        raise ValueError(f"--data-file {path}: cannot be read as UTF-8 text ({_short(reason)})") from None
    header = lines[0].split("\t") if lines else []
    if "sentence" not in header or "label" not in header:
        raise ValueError(
            f"--data-file {path}: its first line must name the columns sentence and label, tab between them"
        )
    text, label = header.index("sentence"), header.index("label")
    pairs = []
    for number, line in enumerate(lines[1:], start=2):
        cells = line.split("\t")
        if len(cells) != len(header) or cells[label] not in ("0", "1", "-1", "+1"):
            raise ValueError(f"--data-file {path}, line {number}: needs {len(header)} columns and a label of 0 or 1")
        pairs.append((cells[text], 1.0 if cells[label] in ("1", "+1") else -1.0))
    return pairs


def _packaged(package: str, path: str) -> Path:
    """A file inside an installed package, which is not imported."""
    spec = importlib.util.find_spec(package)
    file = Path(spec.origin).parent / path if spec is not None and spec.origin else None
    if file is None or not file.is_file():
        raise MissingData(f"{package} is not installed, or without {Path(path).name}; {INSTALL}")
    return file


def _short(reason: Exception) -> str:
    return " ".join(str(reason).split())[:80]
