"""Who ends lower in softmax regression: Algorithm 1 against its rivals, its three ingredients, and the token covariance."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rmt.statistics.claims import Claim
from rmt.statistics.contrasts import ratio_claim
from simulations.claims.softmax_groups import OWN, above_claim, draws_of, label

if TYPE_CHECKING:
    from rmt.experiments.results import Results

SOURCE = "goel2026"
STEPS = "goel2026; constants derived, see rmt.theorems.softmax_regression"
INGREDIENTS = {  # with it, without it
    "start": ("spectral", "random"),
    "regularizer": ("on", "off"),
    "optimizer": ("preconditioned", "gd"),
}


def comparison_claims(results: Results) -> Iterator[Claim]:
    """Paired comparisons of the final excess, and of the steps of the population descent."""
    for found in itertools.chain(_rivals(results), _start(results), _ingredients(results), _covariance(results)):
        if found is not None:
            yield found


def _rivals(results: Results) -> Iterator[Claim | None]:
    """Final excess of each rival over that of Algorithm 1, at the largest n, each from its natural start."""
    for group in results.along("n", optimizer="preconditioned", start="spectral", regularizer="on"):
        own = group[-1]
        for rival in results.where(n=own.n, condition=own.condition, contexts=own.contexts, tau=own.tau):
            if rival.optimizer not in OWN and rival.start != "spectral" and rival.regularizer == "off":
                yield above_claim(
                    f"{rival.optimizer}, {rival.start} start, ends above Algorithm 1 at n = {own.n}",
                    "optimizer",
                    draws_of(results, rival, "excess_risk"),
                    draws_of(results, own, "excess_risk"),
                    expected="supported" if rival.optimizer in ("gd", "sgd") else None,
                    source=SOURCE,
                )


def _start(results: Results) -> Iterator[Claim | None]:
    """Whether training from the spectral start loses what the start had: the bias of a softmax over n tokens comes in."""
    for group in results.along("n", optimizer="preconditioned", start="spectral", regularizer="on"):
        own = group[-1]
        yield above_claim(
            f"n = {own.n}, {label(own)}: training ends above its own start",
            "passes",
            draws_of(results, own, "excess_risk"),
            draws_of(results, own, "start_excess"),
            expected=None,
            source=SOURCE,
        )


def _ingredients(results: Results) -> Iterator[Claim | None]:
    """What the spectral start, the regulariser and the preconditioner buy, each with the other two on or off."""
    for field, (with_it, without) in INGREDIENTS.items():
        others = [name for name in INGREDIENTS if name != field]
        for present in itertools.product(*(INGREDIENTS[name] for name in others)):
            fixed = dict(zip(others, present, strict=True))
            shown = ", ".join(f"{name} {value}" for name, value in fixed.items())
            for having in results.where(**fixed, **{field: with_it}):
                lacking = dataclasses.replace(having, **{field: without})
                if lacking in results.samples:
                    yield above_claim(
                        f"n = {having.n}, {shown}: {field} {without} ends above {with_it}",
                        field,
                        draws_of(results, lacking, "excess_risk"),
                        draws_of(results, having, "excess_risk"),
                        expected=None,
                        source=SOURCE,
                    )


def _covariance(results: Results) -> Iterator[Claim | None]:
    """What the condition number of the covariance changes: the end of a run, and the steps of the population descent."""
    for group in results.along("condition"):
        first = group[0]
        low, high = group[0], group[-1]
        name = f"n = {first.n}, {label(first, without='condition')}"
        yield above_claim(
            f"{name}: kappa(Sigma) = {high.condition:g} ends above {low.condition:g}",
            "condition",
            draws_of(results, high, "excess_risk"),
            draws_of(results, low, "excess_risk"),
            expected="supported" if first.optimizer == "gd" else None,
            source=SOURCE,
        )
        many, few = draws_of(results, high, "population_steps"), draws_of(results, low, "population_steps")
        if len(many):
            count = min(len(many), len(few))
            yield ratio_claim(
                f"{name}: population steps at kappa(Sigma) = {high.condition:g} are those at {low.condition:g}",
                many[:count],
                few[:count],
                predicted=1.0,
                tolerance=0.1,
                along="condition",
                paired=True,
                expected="supported" if first.optimizer == "preconditioned" else "contradicted",
                source=STEPS,
            )
