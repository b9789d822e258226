"""Settings: frozen dataclasses of scalars whose fields are the command-line flags of an experiment."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any


class Meaningless(ValueError):
    """A combination of flags that has no meaning: it is left out of a sweep, with one line that says why."""


@dataclasses.dataclass(frozen=True)
class Flag:
    """How one field is read from text and what it may hold."""

    parse: Callable[[str], Any]
    rule: str
    help: str
    choices: tuple[str, ...] | None = None
    accepts: Callable[[Any], bool] = lambda value: True

    def check(self, name: str, value: Any) -> None:
        """Refuse a value that breaks the rule, with value, rule and remedy in one line."""
        if value is None:
            return
        if self.choices is not None and value not in self.choices:
            raise ValueError(f"{flag_name(name)} {value}: must be one of {', '.join(self.choices)}")
        try:
            good = self.accepts(value)
        except TypeError:
            good = False
        if not good:
            raise ValueError(f"{flag_name(name)} {value}: must be {self.rule}")


def flag_name(field: str) -> str:
    """The flag of a field: head_dim is --head-dim."""
    return "--" + field.replace("_", "-")


def integer(default: int | None, help: str, *, at_least: int = 1) -> Any:
    """A field that holds an integer."""

    def accepts(value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and value >= at_least

    flag = Flag(int, f"an integer >= {at_least}", help, accepts=accepts)
    return dataclasses.field(default=default, metadata={"flag": flag})


def real(
    default: float | None,
    help: str,
    *,
    at_least: float = -math.inf,
    above: float = -math.inf,
    at_most: float = math.inf,
) -> Any:
    """A field that holds a finite real number."""
    limits = ((">", above), (">=", at_least), ("<=", at_most))
    said = [f"{sign} {limit:g}" for sign, limit in limits if math.isfinite(limit)]
    rule = " ".join(["a finite number", " and ".join(said)]).rstrip()

    def accepts(value: Any) -> bool:
        inside = value > above and at_least <= value <= at_most
        return not isinstance(value, bool) and math.isfinite(value) and inside

    return dataclasses.field(default=default, metadata={"flag": Flag(float, rule, help, accepts=accepts)})


def choice(default: str | None, help: str, choices: Iterable[str]) -> Any:
    """A field that holds one of a few words."""
    names = tuple(choices)
    flag = Flag(str, "one of " + ", ".join(names), help, choices=names)
    return dataclasses.field(default=default, metadata={"flag": flag})


def text(default: str | None, help: str) -> Any:
    """A field that holds any word, for example a file name; its setting checks it further."""
    return dataclasses.field(default=default, metadata={"flag": Flag(str, "a word", help)})


def flags(setting_type: type) -> dict[str, Flag]:
    """The flags of a setting, by field name; a plain field gets a flag from the type of its default."""
    found = {}
    for field in dataclasses.fields(setting_type):
        flag = field.metadata.get("flag")
        if flag is None:
            parse = type(field.default) if field.default not in (None, dataclasses.MISSING) else str
            flag = Flag(parse, f"a value of type {parse.__name__}", field.name.replace("_", " "))
        found[field.name] = flag
    return found


def check_fields(setting: Any) -> None:
    """Check every field of a setting against its own rule; call it first in `__post_init__`."""
    for name, flag in flags(type(setting)).items():
        flag.check(name, getattr(setting, name))


def as_record(setting: Any) -> dict[str, Any]:
    """The setting as JSON: every field, in order."""
    return dataclasses.asdict(setting)


def identity(setting: Any) -> dict[str, Any]:
    """The fields that differ from their declared defaults: a field added later changes no stored key."""
    return {
        field.name: getattr(setting, field.name)
        for field in dataclasses.fields(setting)
        if getattr(setting, field.name) != field.default
    }


def told(setting: Any) -> str:
    """The setting in a line of text: what differs from the defaults, and the size."""
    fields = {"n": getattr(setting, "n", None), **identity(setting)}
    return ", ".join(f"{name} = {value}" for name, value in fields.items() if value is not None)


def sweep(setting_type: type, values: Mapping[str, Iterable[Any]]) -> tuple[list[Any], list[str]]:
    """Every setting of the Cartesian product, duplicates merged, and one line for each combination without meaning.

    Fields not named keep their defaults. Raises ValueError for a value that breaks its field's own rule.
    """
    unknown = sorted(set(values) - {field.name for field in dataclasses.fields(setting_type)})
    if unknown:
        known = ", ".join(field.name for field in dataclasses.fields(setting_type))
        raise ValueError(f"{', '.join(unknown)}: no such field; the fields are {known}")
    given = {name: tuple(several) for name, several in values.items()}
    for name, several in given.items():
        if not several:
            raise ValueError(f"{flag_name(name)}: no values; give one or several")
    settings: dict[Any, None] = {}
    left_out: list[str] = []
    for combination in itertools.product(*given.values()):
        try:
            settings.setdefault(setting_type(**dict(zip(given, combination, strict=True))))
        except Meaningless as reason:
            left_out.append(str(reason))
    return list(settings), list(dict.fromkeys(left_out))
