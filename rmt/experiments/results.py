"""Results: the stored draws of a sweep, and what they say."""

from __future__ import annotations

import dataclasses
import functools
import html
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rmt.experiments.experiment import Experiment
from rmt.experiments.setting import as_record

if TYPE_CHECKING:
    import pandas


@dataclasses.dataclass(frozen=True)
class Results:
    """Raw draws by setting and quantity, with verdicts on demand.

    samples: {setting: {quantity: array with one entry (or row) per draw}}, settings in the order of the sweep; a
    setting without any block is absent. failures and missing name the blocks that are not there, and why.
    """

    experiment: Experiment
    seed: int
    device: str
    provenance: Mapping[str, Any]
    samples: Mapping[Any, Mapping[str, np.ndarray]]
    failures: tuple[str, ...] = ()
    missing: int = 0

    @property
    def settings(self) -> list[Any]:
        """The settings that have draws."""
        return list(self.samples)

    def draws(self, quantity: str, **fields: Any) -> np.ndarray:
        """The draws of a quantity at the one setting that has these field values."""
        matching = self.where(**fields)
        if len(matching) != 1:
            raise ValueError(f"{fields}: names {len(matching)} settings of {len(self.samples)}; name exactly one")
        return self.samples[matching[0]][quantity]

    def where(self, **fields: Any) -> list[Any]:
        """The settings that have these field values."""
        return [s for s in self.samples if all(getattr(s, name) == value for name, value in fields.items())]

    def along(self, field: str, *, least: int = 2, **fields: Any) -> Iterator[list[Any]]:
        """Settings that differ in `field` only, sorted by it, in groups of at least `least`; of those with these `fields`."""
        groups: dict[Any, list[Any]] = {}
        for setting in self.where(**fields):
            record = tuple((f.name, getattr(setting, f.name)) for f in dataclasses.fields(setting) if f.name != field)
            groups.setdefault(record, []).append(setting)
        for members in groups.values():
            if len(members) >= least:
                yield sorted(members, key=lambda s: getattr(s, field))

    @functools.cached_property
    def rows(self) -> list[dict[str, Any]]:
        """One record per setting, quantity and index: the rows of the JSON document."""
        from rmt.experiments import audit  # brings SciPy's statistics, which a plain --help can do without

        return audit.rows(self.experiment, self.samples)

    @functools.cached_property
    def claims(self) -> list[dict[str, Any]]:
        """Rival laws, papers' claims and exponents, judged over the sweep."""
        from rmt.experiments import audit

        return audit.claims(self)

    @functools.cached_property
    def summary(self) -> str:
        """The experiment's plain sentence."""
        return self.experiment.summary(self) if self.experiment.summary and self.samples else ""

    def document(self) -> dict[str, Any]:
        """The JSON document."""
        return {
            "experiment": self.experiment.name,
            "version": self.experiment.version,
            "seed": self.seed,
            "device": self.device,
            "provenance": dict(self.provenance),
            "rows": self.rows,
            "claims": self.claims,
        }

    def frame(self) -> pandas.DataFrame:
        """The rows as a tidy frame: one column per field of the setting, then quantity, index, numbers and verdict."""
        import pandas

        records = []
        for row in self.rows:
            lower, upper = row["interval"] or (None, None)
            band_lower, band_upper = row["band"] or (None, None)
            rest = {key: row[key] for key in row if key not in ("setting", "index", "interval", "band")}
            index = next(iter(row["index"].values()), None)
            edges = {"lower": lower, "upper": upper, "band_lower": band_lower, "band_upper": band_upper}
            records.append({**row["setting"], "index": index, **rest, **edges})
        return pandas.DataFrame(records)

    def verdicts(self) -> pandas.DataFrame:
        """Setting, quantity, measured, predicted and verdict of each row that has a prediction."""
        frame = self.frame()
        if frame.empty:
            return frame
        fields = list(as_record(self.settings[0]))
        judged = frame[~frame["verdict"].isin(["no prediction", "out of range"])]
        return judged[[*fields, "quantity", "index", "measured", "stderr", "predicted", "verdict"]]

    def to_csv(self, path: str | Path) -> None:
        """Write the frame as CSV."""
        self.frame().to_csv(path, index=False)

    def to_parquet(self, path: str | Path) -> None:
        """Write the frame as Parquet; needs pyarrow (extra `report`)."""
        self.frame().to_parquet(path, index=False)

    def to_npz(self, path: str | Path) -> None:
        """Write the raw draws: one array per setting and quantity, with the settings as JSON beside them."""
        import json

        arrays = {
            f"{number}/{name}": array
            for number, quantities in enumerate(self.samples.values())
            for name, array in quantities.items()
        }
        settings = json.dumps([as_record(setting) for setting in self.samples])
        np.savez_compressed(path, settings=np.asarray(settings), **arrays)  # type: ignore[arg-type]

    def _repr_html_(self) -> str:
        note = f"<p>{html.escape(self.summary)}</p>" if self.summary else ""
        return note + self.verdicts().to_html(index=False, float_format=lambda value: f"{value:.6g}")


def together(blocks: Iterable[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Join the blocks of one setting along the draws."""
    held = list(blocks)
    return {name: np.concatenate([block[name] for block in held]) for name in held[0]}
