"""Blind test: do the bands of a commit hold what is measured in settings that its own hash chooses?

Experiment: the hash of a commit, which nobody can choose, draws 200 layers (n, d, d_k, beta, mask, tokens, variant,
    weights) inside the ranges that the theory states, and the seeds of their matrices; they are simulated, never refitted.
Theory: the predictions and bands of width_collapse, as they stand in that commit. The goal: bands hold the measured
    statistic in 90 to 99 % of the rows of every regime, and at most 30 % of the predictions say "out of range".
Figure: coverage by regime; every deviation in units of its band, by quantity.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

from rmt.experiments.cli import run_experiment
from rmt.experiments.experiment import Bench, Cost, Experiment
from rmt.experiments.setting import check_fields, integer, text

if TYPE_CHECKING:
    from rmt.experiments.results import Results

SETTINGS = 200
GOAL = (0.90, 0.99)
MOST_OUT_OF_RANGE = 0.30


@dataclasses.dataclass(frozen=True)
class Setting:
    """One layer, named by a commit and a number."""

    commit: str | None = text(None, "full hash of the commit that is tested (the one checked out)")
    number: int = integer(1, "which of its layers")

    def __post_init__(self) -> None:
        from simulations.blind.draw import head

        check_fields(self)
        commit = head() if self.commit is None else self.commit
        if len(commit) != 40 or set(commit) - set("0123456789abcdef"):
            raise ValueError(f"--commit {commit}: must be a full hash of 40 hexadecimal digits; see git rev-parse")
        object.__setattr__(self, "commit", commit)

    @property
    def layer(self) -> Any:
        """The setting of width_collapse that it stands for."""
        from simulations.blind.draw import drawn

        return drawn(str(self.commit), self.number)

    @property
    def n(self) -> int:
        """Its context length, from which the size of a block follows."""
        return self.layer.n


def measure(setting: Setting, draws: range, stream: Any, bench: Bench) -> dict[str, Any]:
    """What width_collapse measures of this layer, on matrices of the commit's own; only what theory speaks of is kept."""
    from simulations import width_collapse
    from simulations.blind.draw import own_stream

    found = width_collapse.measure(setting.layer, draws, own_stream(str(setting.commit), stream), bench)
    known = predict(setting)
    return {name: array for name, array in found.items() if name in known}


def predict(setting: Setting) -> dict[str, Any]:
    """The predictions of width_collapse."""
    return _predict(setting.layer)


@functools.lru_cache(maxsize=1024)
def _predict(layer: Any) -> dict[str, Any]:
    """Each takes up to seconds, and they are asked for row by row."""
    from simulations import width_collapse

    return width_collapse.predict(layer)


def claims(results: Results) -> list[Any]:
    """Coverage by regime, the share out of range, and every row that its band does not hold."""
    from rmt.statistics.claims import Claim
    from simulations.blind.score import coverages, out_of_range_share, rows_in_range

    layers = {s.number: s.layer for s in results.settings}
    rows = rows_in_range(results.rows, layers)
    found = []
    for one in coverages(rows):
        inside = GOAL[0] <= one.share <= GOAL[1]
        apart = one.interval is not None and (one.interval[1] < GOAL[0] or GOAL[1] < one.interval[0])
        found.append(
            Claim(
                f"{one.regime}: bands hold {GOAL[0]:.0%} to {GOAL[1]:.0%} of the measured statistics",
                "setting",
                None,
                one.share,
                one.interval,
                "supported",
                "supported" if inside else "contradicted" if apart else "undecided",
                "blind test",
                f"{one.held} of {one.rows} rows in {one.settings} settings; of the misses {one.clear_misses} are clear "
                "(95 % interval outside the band)",
            )
        )
    share = out_of_range_share(results.rows)
    found.append(
        Claim(
            f"at most {MOST_OUT_OF_RANGE:.0%} of the predictions say out of range",
            "setting",
            None,
            share,
            None,
            "supported",
            "supported" if share <= MOST_OUT_OF_RANGE else "contradicted",
            "blind test",
            "share of all predictions asked for",
        )
    )
    for row in rows:
        if not row.held:
            found.append(
                Claim(
                    f"miss, {'clear' if row.clear else 'within error'}: number {row.number}, {row.words}: {row.quantity}",
                    "setting",
                    row.predicted,
                    row.measured,
                    row.interval,
                    None,
                    "contradicted" if row.clear else "undecided",
                    "blind test",
                    f"band {row.band[0]:.5g} to {row.band[1]:.5g}",
                )
            )
    return found


def summary(results: Results) -> str:
    """Coverage by regime in one sentence."""
    from simulations.blind.score import coverages, out_of_range_share, rows_in_range

    rows = rows_in_range(results.rows, {s.number: s.layer for s in results.settings})
    parts = [f"{one.regime} {one.share:.1%} of {one.rows} rows ({one.settings} settings)" for one in coverages(rows)]
    commit = str(results.settings[0].commit)[:12]
    return (
        f"Commit {commit}: bands hold {'; '.join(parts)}; "
        f"{out_of_range_share(results.rows):.1%} of the predictions are out of range."
    )


def cost(setting: Setting, bench: Bench) -> Cost:
    """That of width_collapse."""
    from simulations import width_collapse

    return width_collapse.cost(setting.layer, bench)


def figure(results: Results) -> Any:
    """The page of this experiment."""
    from simulations.pages.blind_test import page

    return page(results)


EXPERIMENT = Experiment(
    "blind_test",
    Setting,
    measure,
    predict,
    figure,
    sweep={"number": tuple(range(1, SETTINGS + 1))},
    claims=claims,
    summary=summary,
    index={"singular_value": "rank"},
    headline=("second_singular_value", "token_stable_rank"),
    spectra=("none",),
    cost=cost,
)

if __name__ == "__main__":
    raise SystemExit(run_experiment(EXPERIMENT))
