"""Claims of softmax_regression on made-up draws, whose truth is known. Seeds are fixed; spreads are 10 % or less."""

import numpy as np

from rmt.experiments.results import Results
from rmt.theorems.softmax_contexts import best_tau, learned_excess
from simulations.claims.softmax_regression import all_claims, sentence
from simulations.softmax_regression import EXPERIMENT, Setting

SIZES = (1000, 2000, 4000)
KINDS = ("slow", "saddle", "spurious_minimum", "converged")


def draws(level, seed=0, count=8, spread=0.1):
    return level * np.exp(spread * np.random.default_rng(seed).standard_normal(count) - spread**2 / 2)


def results(samples):
    nothing = {"diverged_at_step": np.full(8, np.nan), "start_failed": np.zeros(8)}
    return Results(EXPERIMENT, 0, "cpu", {}, {setting: {**nothing, **found} for setting, found in samples.items()})


def verdicts(samples, words):
    found = [claim for claim in all_claims(results(samples)) if words in claim.claim]
    assert found, words
    return [claim.verdict for claim in found]


def trained(excess):
    """Algorithm 1 at three sizes, ending where `excess(setting)` says."""
    made = {}
    for seed, n in enumerate(SIZES):
        setting = Setting(n=n)
        made[setting] = dict.fromkeys(
            ("excess_risk", "start_excess", "start_distance_squared", "prompt_error"), draws(excess(setting), seed)
        )
    return made


def law(setting):
    return learned_excess(setting.singular_values, setting.width, setting.n, tau=setting.balance)


def test_exponents_and_levels_are_told_apart():
    """10 % of spread, 8 draws at 3 sizes: the slope is known to 0.1 and the level to 4 %."""
    right, steep, high = trained(law), trained(lambda s: law(s) * 1000 / s.n), trained(lambda s: 1.4 * law(s))
    assert verdicts(right, "falls like n^-1")[0] == "supported" and verdicts(right, "falls like n^-2") == [
        "contradicted"
    ]
    assert verdicts(steep, "falls like n^-1")[0] == "contradicted" and verdicts(steep, "falls like n^-2") == [
        "supported"
    ]
    assert verdicts(right, "excess_risk over its closed form") == ["supported"]
    assert verdicts(high, "excess_risk over its closed form") == ["contradicted"]


def test_the_best_balance_is_looked_up_on_the_grid():
    best = best_tau(Setting().singular_values)

    def grid(lowest):
        return {
            Setting(n=1000, tau=factor * best): {
                "excess_risk": draws(1.0), "prompt_error": draws(1 + abs(np.log(factor / lowest)), spread=0.01)
            }
            for factor in (0.25, 1.0, 4.0, 16.0, 64.0)
        }  # fmt: skip

    assert verdicts(grid(1.0), "answered best") == ["supported"]
    assert verdicts(grid(16.0), "answered best") == ["contradicted"]


def runs(kind):
    return {
        Setting(n=1000, optimizer="sgd"): {"excess_risk": draws(1.0)} | {k: np.full(8, k == kind, float) for k in KINDS}
    }


def test_stuck_means_a_saddle_or_a_spurious_minimum():
    assert verdicts(runs("slow"), "sgd gets stuck") == ["undecided"]  # 0 of 8 leaves up to 61 % at level 1e-3
    assert verdicts(runs("saddle"), "sgd gets stuck") == ["supported"]
    assert not [c for c in all_claims(results(runs("converged"))) if "stuck" in c.claim]
    many = {s: {k: np.tile(v, 3) for k, v in found.items()} for s, found in runs("slow").items()}
    assert verdicts(many, "sgd gets stuck") == ["contradicted"]


def test_rivals_are_compared_on_the_same_draws():
    """Ratios of 2 on the same draws are decided, whatever the spread of the draws."""
    own = {Setting(n=n): {"excess_risk": draws(1.0, spread=1.0), "start_excess": draws(1.0, spread=1.0)} for n in SIZES}
    rival = {Setting(n=n, optimizer="gd"): {"excess_risk": draws(2.0, spread=1.0)} for n in SIZES}
    assert verdicts(own | rival, "gd, random start, ends above") == ["supported"]
    lower = {Setting(n=n, optimizer="gd"): {"excess_risk": draws(0.5, spread=1.0)} for n in SIZES}
    assert verdicts(own | lower, "gd, random start, ends above") == ["contradicted"]


def test_a_divergent_setting_is_named_in_claims_and_in_the_sentence():
    gone = {Setting(n=1000, optimizer="gd"): {"excess_risk": np.full(8, np.nan), "diverged_at_step": np.full(8, 7.0)}}
    assert verdicts(gone, "converges") == ["contradicted"]
    assert "gd diverged at step 7" in sentence(results(gone))
