"""How the bands fared: which rows a band holds, by regime, and every row it does not hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from rmt.statistics.estimate import Estimate
from simulations.width_collapse import Setting

REGIMES = ("iid", "proportional", "saturated", "entry outlier", "causal", "shared tokens")


def regime(layer: Setting) -> str:
    """What sets the second singular value of a layer (`rmt.theorems.phases`); causal masks and shared tokens apart."""
    from rmt.theorems.layer import layer as one_layer
    from rmt.theorems.light_weights import LightWeights
    from rmt.theorems.phases import Phase

    if layer.mask == "causal":
        return "causal"
    if layer.model == "keyquery":
        if layer.tokens in ("gaussian", "layernorm"):
            return "shared tokens"
        return Phase(layer.n, float(layer.beta or 0.0), layer.head_dim or 64).regime
    light = None if layer.beta is not None else LightWeights(layer.weights or "lognormal")
    return "entry outlier" if one_layer(layer.n, layer.beta or 0.0, None, light).leading[0][1] else "iid"


@dataclasses.dataclass(frozen=True)
class Row:
    """One prediction in range and what was measured: inside its band, and how far the whole 95 % interval is from it."""

    number: int
    layer: Setting
    quantity: str
    predicted: float
    measured: float
    band: tuple[float, float]
    interval: tuple[float, float] | None

    @property
    def held(self) -> bool:
        """Whether the band holds the measured statistic."""
        return self.band[0] <= self.measured <= self.band[1]

    @property
    def clear(self) -> bool:
        """Whether even the 95 % interval of the measured statistic misses the band."""
        return self.interval is not None and (self.interval[1] < self.band[0] or self.band[1] < self.interval[0])

    @property
    def words(self) -> str:
        """The layer, in short."""
        one = self.layer
        law = f"d_k = {one.head_dim}" if one.model == "keyquery" else f"{one.weights}"
        beta = f", beta = {one.beta:g}" if one.beta is not None else ""
        mask = ", causal" if one.mask == "causal" else ""
        return f"n = {one.n}, {one.model}, {law}{beta}{mask}, {one.tokens} {one.width}/{one.value_width}, {one.variant}"


@dataclasses.dataclass(frozen=True)
class Coverage:
    """A regime: settings in it, rows in range, the share its bands hold, and the 95 % interval of that share.

    Rows of one layer hang together, so the setting is the unit: the interval is that of the mean over settings, and where
    no setting has a miss, the exact binomial one for settings without a miss.
    """

    regime: str
    settings: int
    rows: int
    held: int
    clear_misses: int
    share: float
    interval: tuple[float, float] | None


def rows_in_range(rows: Iterable[Mapping[str, Any]], layers: Mapping[int, Setting]) -> list[Row]:
    """The rows of a JSON document that have a band and a measured number."""
    return [
        Row(
            number=row["setting"]["number"],
            layer=layers[row["setting"]["number"]],
            quantity=row["quantity"] + "".join(f" {value}" for value in row["index"].values()),
            predicted=row["predicted"],
            measured=row["measured"],
            band=tuple(row["band"]),
            interval=tuple(row["interval"]) if row["interval"] else None,
        )
        for row in rows
        if row["band"] is not None and row["measured"] is not None
    ]


def out_of_range_share(rows: Iterable[Mapping[str, Any]]) -> float:
    """The share of the predictions that gave no number."""
    verdicts = [row["verdict"] for row in rows if row["verdict"] != "no prediction"]
    return verdicts.count("out of range") / max(len(verdicts), 1)


def coverages(rows: Iterable[Row]) -> list[Coverage]:
    """The regimes met, in their order."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(regime(row.layer), []).append(row)
    order = [name for name in (*REGIMES, *found) if name in found]
    return [_coverage(name, found[name]) for name in dict.fromkeys(order)]


def _coverage(name: str, rows: list[Row]) -> Coverage:
    by_setting: dict[int, list[bool]] = {}
    for row in rows:
        by_setting.setdefault(row.number, []).append(row.held)
    shares = np.array([np.mean(held) for held in by_setting.values()])
    estimate = Estimate.from_draws(shares)
    interval = None if estimate.interval is None else (max(estimate.interval[0], 0.0), min(estimate.interval[1], 1.0))
    if np.all(shares == 1):
        interval = (0.025 ** (1 / shares.size), 1.0)
    held = sum(row.held for row in rows)
    return Coverage(
        regime=name,
        settings=len(by_setting),
        rows=len(rows),
        held=held,
        clear_misses=sum(row.clear for row in rows),
        share=held / len(rows),
        interval=interval,
    )
