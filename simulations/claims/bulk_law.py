"""Claims of bulk_law: the quarter circle as a rival, and a matrix-level test of goodness of fit."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import binomtest

from rmt.statistics.claims import CONTRADICTION_LEVEL, Claim, bound_claim
from simulations.bulk_law import NULL_SPECTRA, bulk_of

if TYPE_CHECKING:
    from rmt.experiments.results import Results

LEVEL = 0.05


def all_claims(results: Results) -> list[Claim]:
    """Every claim of the experiment."""
    return [*_quarter_circle(results), *_gaussian(results)]


def _quarter_circle(results: Results) -> list[Claim]:
    """The quarter circle: right for iid weights, wrong for key-query logits and causal masks; distances are the evidence."""
    found = []
    groups = dict.fromkeys(dataclasses.replace(s, n=1024) for s in results.settings)
    for group in groups:
        sizes = [s for s in results.settings if dataclasses.replace(s, n=1024) == group and not bulk_of(s).limits()]
        if not sizes:
            continue
        keyquery = group.model == "keyquery"
        wrong = keyquery or group.mask == "causal"
        temperature = f", beta = {group.beta:.4g}" if group.beta else ""
        name = "causal, " if group.mask == "causal" else ""
        name += f"key-query logits, d_k = {group.head_dim}" if keyquery else f"iid {group.weights} weights"
        found.append(
            bound_claim(
                f"{name}{temperature}: the spectrum is a quarter circle",
                [s.n for s in sizes],
                [results.samples[s]["_rival_distance"] for s in sizes],
                bound=[bulk_of(s).distance for s in sizes],
                expected="contradicted" if wrong else "supported",
                source="nait-saada2024" if wrong else "bordenave2012",
            )
        )
    return found


def _gaussian(results: Results) -> list[Claim]:
    """Is an iid spectrum, bulk and edges, that of a Gaussian matrix of its variance? Ranked among matrices, draw by draw.

    Contradicted where more draws are rejected at level .05 than chance allows (1e-3, binomial); a test supports nothing.
    """
    found = []
    for setting in results.where(model="iid", mask="none"):
        p = results.samples[setting]["_gaussian_p_value"]
        rejected = int(np.sum(p <= LEVEL))
        chance = binomtest(rejected, p.size, LEVEL, alternative="greater").pvalue
        temperature = f" of beta {setting.beta:.4g}" if setting.beta else ""
        found.append(
            Claim(
                f"n = {setting.n}, iid {setting.weights} weights{temperature}: spectra pass for those of a Gaussian matrix",
                "draw",
                LEVEL,
                rejected / p.size,
                None,
                None,
                "contradicted" if chance < CONTRADICTION_LEVEL else "undecided",
                "matrix-level Monte Carlo, see rmt.statistics.goodness",
                f"share of {p.size} draws rejected at level {LEVEL:g}, each among {NULL_SPECTRA} Gaussian spectra; "
                f"median p-value {np.median(p):.2g}",
            )
        )
    return found
