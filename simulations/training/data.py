"""Data of conditioned_training: digits or a folder of images, bytes of Python's own documentation, generated ListOps.

Nothing is downloaded. Digits come from scikit-learn (extra `data`), the text from `pydoc_data` of the standard library.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rmt.arrays import CPU
from rmt.kernels import kernels_for
from rmt.streams import Stream

__all__ = ["Data", "listops_value", "load"]

SIDE, PATCH = 8, 2  # pixels
MASKED = 0.15  # share of the bytes that masked-lm hides
MASK = 256  # the token that hides them
LISTOPS = ("[MAX", "[MIN", "[MED", "[SM", "]", *"0123456789", " ")
TRAIN, VALIDATION = 500, 500  # sequences; the rest is the test set


@dataclass(frozen=True, eq=False)
class Data:
    """Inputs (k, n, features) or token numbers (k, n), targets (k,) or (k, n) with -1 where nothing is asked.

    splits: how many sequences, from the first, are for training and validation; the rest tests.
    vocabulary: number of input tokens, None for patches; classes: number of answers.
    """

    inputs: np.ndarray
    targets: np.ndarray
    classes: int
    vocabulary: int | None
    causal: bool = False
    splits: tuple[int, int] = (TRAIN, VALIDATION)

    @property
    def n(self) -> int:
        """Tokens of a sequence."""
        return self.inputs.shape[1]

    def part(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets of "train", "validation" or "test"."""
        a, b = self.splits[0], sum(self.splits)
        rows = {"train": slice(0, a), "validation": slice(a, b), "test": slice(b, None)}[name]
        return self.inputs[rows], self.targets[rows]


def load(task: str, stream: Stream, draw: int, *, n: int, images: str | None = None) -> Data:
    """The data of one draw: a random order of a fixed set, random windows of a text, or fresh expressions."""
    here = stream.within(f"training/{task}")
    if task == "classify":
        pixels, labels = digits() if images is None else folder(images)
        order = np.argsort(_normals(here, "order", draw, len(labels)), kind="stable")
        train = min(TRAIN, len(labels) // 2)
        splits = (train, min(VALIDATION, (len(labels) - train) // 2))
        return Data(patches(pixels[order]), labels[order], int(labels.max()) + 1, None, splits=splits)
    if task == "listops":
        inputs, labels = listops(here, draw, 1500, n)
        return Data(inputs, labels, 10, len(LISTOPS))
    windows = _windows(here, draw, 1500, n + 1)
    if task == "causal-lm":
        return Data(windows[:, :-1], windows[:, 1:], 256, 256, causal=True)
    hidden = _uniforms(here, "hidden", draw, 1500 * n).reshape(1500, n) < MASKED
    text = windows[:, :-1]
    return Data(np.where(hidden, MASK, text), np.where(hidden, text, -1), 256, 257)


@functools.lru_cache(maxsize=1)
def digits() -> tuple[np.ndarray, np.ndarray]:
    """1797 handwritten digits, (1797, 8, 8) in [0, 1], and their labels."""
    from sklearn.datasets import load_digits

    found = load_digits()
    return found.images / 16.0, found.target.astype(np.int64)


@functools.lru_cache(maxsize=1)
def folder(path: str) -> tuple[np.ndarray, np.ndarray]:
    """Images of a folder with one subfolder for each class, in grey, brought to 16 x 16 pixels."""
    from PIL import Image

    kinds = sorted(p for p in Path(path).expanduser().iterdir() if p.is_dir())
    pictures, labels = [], []
    for label, kind in enumerate(kinds):
        for file in sorted(kind.iterdir()):
            try:
                with Image.open(file) as image:
                    pictures.append(np.asarray(image.convert("L").resize((2 * SIDE, 2 * SIDE)), dtype=float) / 255)
            except OSError as reason:
                raise ValueError(f"--images {file}: is no image ({reason}); move it away") from reason
            labels.append(label)
    if len(kinds) < 2 or len(labels) < 40:
        raise ValueError(
            f"--images {path}: {len(labels)} images in {len(kinds)} subfolders; needs 2 classes and 40 images"
        )
    return np.stack(pictures), np.array(labels)


def patches(pixels: np.ndarray) -> np.ndarray:
    """(k, side, side) -> (k, (side / patch)^2, patch^2) for the patch that makes 16 tokens."""
    k, side, _ = pixels.shape
    patch = side // 4
    cut = pixels.reshape(k, 4, patch, 4, patch).transpose(0, 1, 3, 2, 4)
    return cut.reshape(k, 16, patch * patch)


@functools.lru_cache(maxsize=1)
def text() -> np.ndarray:
    """Python's own documentation, as bytes."""
    from pydoc_data.topics import topics

    return np.frombuffer("\n".join(topics[name] for name in sorted(topics)).encode(), dtype=np.uint8).astype(np.int64)


def _windows(stream: Stream, draw: int, count: int, length: int) -> np.ndarray:
    """Windows of the text; those that train, validate and test come from its first, second and last part."""
    whole = text()
    ends = np.array([0, 0.6, 0.8, 1.0]) * (len(whole) - length)
    parts = np.repeat([0, 1, 2], [TRAIN, VALIDATION, count - TRAIN - VALIDATION])
    place = _uniforms(stream, "windows", draw, count)
    first = (ends[parts] + place * (ends[parts + 1] - ends[parts] - length)).astype(int)
    return whole[first[:, None] + np.arange(length)]


def listops(stream: Stream, draw: int, count: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Nested expressions such as [MAX 3 [MIN 7 1 ] 4 ] cut to fit n tokens, and their values 0 ... 9."""
    chance = _uniforms(stream, "listops", draw, count * n * 4).reshape(count, -1)
    inputs, labels = np.full((count, n), LISTOPS.index(" ")), np.empty(count, dtype=np.int64)
    for row in range(count):
        tokens, labels[row] = _expression(iter(chance[row]), n, 2)
        inputs[row, : len(tokens)] = tokens
    return inputs, labels


def _expression(chance: Iterator[float], room: int, depth: int) -> tuple[list[int], int]:
    operator = int(next(chance) * 4)
    tokens, values = [operator], list[int]()
    while len(tokens) < room - 1 and len(values) < 5:
        if depth and room - len(tokens) > 6 and next(chance) < 0.3:
            inner, value = _expression(chance, (room - len(tokens)) // 2, depth - 1)
        else:
            value = int(next(chance) * 10)
            inner = [LISTOPS.index(str(value))]
        tokens += inner
        values.append(value)
    return [*tokens, LISTOPS.index("]")], listops_value(LISTOPS[operator], values)


def listops_value(operator: str, values: list[int]) -> int:
    """MAX, MIN, MED (the lower median) or SM (sum modulo 10) of the values."""
    if operator == "[SM":
        return sum(values) % 10
    ordered = sorted(values)
    return {"[MAX": ordered[-1], "[MIN": ordered[0], "[MED": ordered[(len(ordered) - 1) // 2]}[operator]


def _normals(stream: Stream, name: str, draw: int, count: int) -> np.ndarray:
    return kernels_for(CPU).variates(stream.words(name, draw), 0, 1, count)[0].astype(float)


def _uniforms(stream: Stream, name: str, draw: int, count: int) -> np.ndarray:
    from scipy.special import ndtr

    return ndtr(_normals(stream, name, draw, count))
