"""Flags: the command line of an experiment, made from the fields of its setting and the run flags."""

from __future__ import annotations

import argparse
import dataclasses
import re
from typing import Any

from rmt.experiments.experiment import Experiment
from rmt.experiments.run import DEFAULT_STORE, Request
from rmt.experiments.setting import flag_name, flags
from rmt.parser import Parser

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def parser(experiment: Experiment) -> Parser:
    """The parser of an experiment: every field of its Setting, then the run flags."""
    made = Parser(
        prog=experiment.name,
        description=experiment.doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    fields = made.add_argument_group("setting", "each takes one or several values; the sweep is their product")
    defaults = {field.name: field.default for field in dataclasses.fields(experiment.Setting)}
    for name, flag in flags(experiment.Setting).items():
        swept = experiment.sweep.get(name)
        shown = " ".join(map(str, swept)) if swept else defaults[name]
        note = "" if shown is None else f" ({_short(shown)})"
        metavar = "{" + ",".join(flag.choices) + "}" if flag.choices else name.upper()
        fields.add_argument(
            flag_name(name), nargs="+", metavar=metavar, help=f"{flag.help}{note}".replace("%", "%%"), type=_read(flag)
        )
    _run_flags(made.add_argument_group("run"), experiment)
    return made


def request(experiment: Experiment, arguments: argparse.Namespace) -> Request:
    """The checked request behind parsed arguments; raises ValueError in one line."""
    given = vars(arguments)
    names = [field.name for field in dataclasses.fields(experiment.Setting)]
    values = {name: tuple(given[name]) for name in names if given[name] is not None}
    run_flags = {field.name for field in dataclasses.fields(Request)} - {"values"}
    return Request(values=values, **{name: given[name] for name in run_flags if given[name] is not None})


def _run_flags(group: Any, experiment: Experiment) -> None:
    group.add_argument("--draws", type=_integer, metavar="D", help="draws per setting in all (16)")
    group.add_argument("--seed", type=_integer, metavar="S", help="seed of every random number (0)")
    group.add_argument("--device", metavar="{auto,cpu,gpu}", help="where arrays live (auto)")
    group.add_argument("--workers", type=_integer, metavar="W", help="threads or processes (all usable cores)")
    group.add_argument("--executor", metavar="{serial,processes,dask}", help="chosen by the amount of work")
    group.add_argument("--scheduler", metavar="ADDRESS", help="address of a running dask scheduler")
    group.add_argument("--shard", type=_shard, metavar="I/K", help="compute only every K-th block, from the I-th")
    group.add_argument("--memory-budget", type=memory, metavar="SIZE", help="such as 8GB (half of what is free)")
    group.add_argument("--dtype", metavar="{float32,float64}", help="of logits and attention matrices (float32)")
    spectra = "{" + ",".join(experiment.spectra) + "}"
    group.add_argument("--spectrum", metavar=spectra, help="keep whole spectra (none)")
    group.add_argument("--out", metavar="DIR", help=f"the store ({DEFAULT_STORE})")
    group.add_argument("--fresh", action="store_true", help="compute again what is stored")
    group.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
    group.add_argument("--format", choices=("table", "json"), default="table", help="of standard output (table)")
    group.add_argument("--export", metavar="FILE", help="write the rows as .csv or .parquet, or the draws as .npz")
    figure = f"reports/figures/{experiment.name}.png"
    group.add_argument("--figure", metavar="PATH", default=figure, help=f"with an .svg beside it ({figure})")
    group.add_argument("--no-figure", action="store_true", help="draw no figure")
    group.add_argument("--check", action="store_true", help="exit 1 when a row or claim is decided against theory")
    group.add_argument("--quiet", action="store_true", help="no progress bar")


def memory(text: str) -> int:
    """Bytes of a size such as 8GB or 512MiB."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([a-zA-Z]*)\s*", text)
    if not match or match[2].lower() not in _UNITS or float(match[1]) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r}: must be a size above zero, such as 8GB or 512MiB")
    return int(float(match[1]) * _UNITS[match[2].lower()])


def _shard(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise argparse.ArgumentTypeError(f"{text!r}: must be i/k with 1 <= i <= k, such as 2/8")
    return int(match[1]), int(match[2])


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: must be an integer") from None


def _read(flag: Any) -> Any:
    def read(text: str) -> Any:
        try:
            return flag.parse(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r}: must be {flag.rule}") from None

    return read


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
