"""Cite: the BibTeX of the papers behind an experiment's predictions."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from rmt.experiments.experiment import Experiment
from rmt.experiments.setting import sweep

_MODULE = re.compile(r"\brmt(?:\.\w+)+")


def citations(experiment: Experiment, values: Mapping[str, Iterable[Any]] | None = None) -> list[str]:
    """The BibTeX entries that the predictions of a sweep rest on, in the order of the bibliography.

    values: {field: values} of the sweep, the experiment's default for what is not named. A source names papers by their
    keys, or a module that derives the formula, whose text names more. Raises ValueError for values that cannot be run.
    """
    entries = bibliography()
    texts = _sources(experiment, {**experiment.sweep, **(values or {})})
    texts |= {_text_of(module) for text in texts for module in _MODULE.findall(text)}
    return [entry for key, entry in entries.items() if any(_names(text, key) for text in texts)]


def bibliography() -> dict[str, str]:
    """Every entry of the bibliography by key."""
    text = (files("rmt.theorems") / "references.bib").read_text(encoding="utf-8")
    found = re.split(r"^(?=@)", text, flags=re.MULTILINE)
    return {match[1]: entry.strip() for entry in found if (match := re.match(r"@\w+\{([^,\s]+),", entry))}


def _sources(experiment: Experiment, values: Mapping[str, Iterable[Any]]) -> set[str]:
    """What the predictions of a sweep name as their source."""
    settings, left_out = sweep(experiment.Setting, values)
    if not settings and left_out:
        raise ValueError(left_out[0])
    texts = set()
    for setting in settings:
        for entry in (experiment.predict(setting) if experiment.predict else {}).values():
            forms = entry.values() if isinstance(entry, Mapping) else [entry]
            texts |= {form.source for form in forms if form is not None and form.in_range}
    return texts


def _text_of(module: str) -> str:
    """The source text of a module; empty where there is none of that name."""
    try:
        found = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        return ""
    return Path(found.origin).read_text(encoding="utf-8") if found is not None and found.origin else ""


def _names(text: str, key: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(key)}(?![\w-])", text) is not None
