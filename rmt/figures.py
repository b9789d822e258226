"""Figures: one style, a few kinds of panel, and files that carry their own recipe. Data come in as plain arrays."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import seaborn
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

_COLOURS = seaborn.color_palette("colorblind").as_hex()
_LOOK = {
    # Colour, marker and line differ together, so that a grey print can be read.
    "first": {"color": _COLOURS[0], "marker": "o", "linestyle": "-"},
    "second": {"color": _COLOURS[1], "marker": "s", "linestyle": "--"},
    "third": {"color": _COLOURS[2], "marker": "^", "linestyle": "-."},
    "fourth": {"color": _COLOURS[4], "marker": "D", "linestyle": ":"},
}
_PARAMETERS: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.dpi": 110,
    "savefig.dpi": 200,
    "svg.hashsalt": "rmt",
    "pdf.fonttype": 42,
    "font.family": ["DejaVu Sans"],
}
_RECIPE = "Description"


@contextlib.contextmanager
def style() -> Iterator[None]:
    """The look of every figure; nothing of it stays behind."""
    with matplotlib.rc_context():
        matplotlib.rcParams.update(seaborn.axes_style("ticks"))
        matplotlib.rcParams.update(_PARAMETERS)
        yield


def looks(names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Colour, marker and line of each of up to four names, in order."""
    if len(names) > len(_LOOK):
        raise ValueError(f"{len(names)} series: a panel shows at most {len(_LOOK)}; split it")
    return dict(zip(names, _LOOK.values(), strict=False))


@dataclasses.dataclass(frozen=True)
class Curve:
    """A theory line with its band: x (k,), value, lower and upper (k,), NaN where the theory is out of range."""

    label: str
    x: np.ndarray
    value: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


@dataclasses.dataclass(frozen=True)
class Points:
    """Measured points with their 95 % intervals: x, value, lower, upper (k,)."""

    label: str
    x: np.ndarray
    value: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


def page(rows: int, columns: int, *, height: float = 2.9, width: float = 7.6) -> tuple[Figure, np.ndarray]:
    """A page of panels, lettered, with room for a legend to the right of each: (figure, axes (rows, columns))."""
    figure = Figure(figsize=(width, height * rows), layout="constrained")
    FigureCanvasAgg(figure)
    axes = np.asarray(figure.subplots(rows, columns, squeeze=False))
    for letter, ax in zip("abcdefghijklmnop", axes.flat, strict=False):
        ax.set_title(f"{letter}  ")
    return figure, axes


def title(ax: Any, text: str) -> None:
    """Put a title behind the panel's letter."""
    ax.set_title(f"{ax.get_title(loc='left').split()[0]}   {text}")


def scaling(
    ax: Any,
    curves: Sequence[Curve],
    points: Sequence[Points],
    *,
    ylabel: str,
    xlabel: str,
    xscale: str = "log",
    log: bool = True,
) -> None:
    """Theory lines with bands and measured points, one look per label; y is linear without `log` or a positive value.

    A theory that is out of range everywhere gets no line and no entry in the legend.
    """
    names = list(dict.fromkeys([*(curve.label for curve in curves), *(point.label for point in points)]))
    look = looks(names)
    for curve in curves:
        style_of, known = look[curve.label], np.isfinite(curve.value)
        if not known.any():
            continue
        ax.fill_between(curve.x, curve.lower, curve.upper, color=style_of["color"], alpha=0.2, linewidth=0)
        line: dict[str, Any] = {"color": style_of["color"], "linestyle": style_of["linestyle"]}
        padded = np.pad(known, 1)
        alone = known & ~padded[:-2] & ~padded[2:]
        if alone.any():  # a line needs two points to be seen
            line |= {"marker": "_", "markersize": 10, "markevery": np.flatnonzero(alone).tolist()}
        ax.plot(curve.x, curve.value, linewidth=1.4, label=f"theory, {curve.label}", **line)
    for point in points:
        errors = np.abs(np.stack([point.value - point.lower, point.upper - point.value]))
        marks = {"color": look[point.label]["color"], "marker": look[point.label]["marker"], "linestyle": "none"}
        ax.errorbar(
            point.x,
            point.value,
            yerr=errors,
            markersize=4.5,
            markeredgecolor="black",
            markeredgewidth=0.6,
            capsize=2,
            zorder=3,
            label=f"measured, {point.label}",
            **marks,
        )
    ax.set_xscale(xscale)
    drawn = [*(curve.value for curve in curves), *(point.value for point in points)]
    if log and any(np.any(value > 0) for value in drawn):
        ax.set_yscale("log")
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    legend(ax)


def spectrum(
    ax: Any, values: np.ndarray, *, law: Any, rival: Any = None, xlabel: str, label: str, rival_label: str = ""
) -> None:
    """Histogram of pooled singular values with the density of its law over it; the edge is marked, a rival is dashed.

    law, rival: callables x -> density with a `support` end as attribute pair (density, end).
    """
    look = looks(["law", "rival"])
    end = max(float(values.max()), law[1], rival[1] if rival else 0.0)
    ax.hist(
        values, bins=80, range=(0, end), density=True, color="0.8", edgecolor="0.6", linewidth=0.3, label="measured"
    )
    grid = np.linspace(0, end, 800)[1:]
    ax.plot(grid, law[0](grid), color=look["law"]["color"], linewidth=1.5, label=label)
    ax.axvline(law[1], color=look["law"]["color"], linewidth=0.8, linestyle=":", label="edge of the law")
    if rival:
        ax.plot(grid, rival[0](grid), color=look["rival"]["color"], linestyle="--", linewidth=1.5, label=rival_label)
    ax.set_xlabel(xlabel)
    ax.set_ylabel("density")
    ax.set_xlim(0, 1.05 * end)
    legend(ax)


def legend(ax: Any) -> None:
    """A legend outside the axes, to the right."""
    if ax.get_legend_handles_labels()[0]:
        ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0)


def save(figure: Figure, path: str | os.PathLike[str], *, recipe: Mapping[str, Any]) -> list[Path]:
    """Write a figure, an .svg beside a .png, each with its recipe (command, seed, versions, keys) in the metadata.

    Each file is written under a temporary name and renamed. Returns the paths written.
    """
    path = Path(path)
    paths = [path] if path.suffix != ".png" else [path, path.with_suffix(".svg")]
    text = json.dumps(recipe, sort_keys=True)
    with style():
        for target in paths:
            kind = target.suffix[1:]
            temporary = target.with_name(f".writing-{os.getpid()}-{target.name}")
            metadata: dict[str, Any] = {"Subject": text} if kind == "pdf" else {_RECIPE: text}
            metadata |= {"CreationDate": None} if kind == "pdf" else {"Date": None} if kind == "svg" else {}
            try:
                figure.savefig(temporary, format=kind, metadata=metadata)
                os.replace(temporary, target)
            finally:
                temporary.unlink(missing_ok=True)
    return paths


def read_recipe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The recipe in a .png or .svg written by `save`. Raises ValueError where there is none."""
    path = Path(path)
    if path.suffix == ".png":
        from PIL import Image

        with Image.open(path) as image:
            text = image.info.get(_RECIPE)
    else:
        import html

        found = re.search(r"<dc:description>(.*?)</dc:description>", path.read_text(), re.DOTALL)
        text = html.unescape(found[1]) if found else None
    if text is None:
        raise ValueError(f"{path}: carries no recipe; it was not written by rmt")
    return json.loads(text)
