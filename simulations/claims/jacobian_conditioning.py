"""The claims of jacobian_conditioning: Theorems 3.4, 3.5 and 3.8 as statements on J, controls, and what kappa(J) follows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from rmt.attention.jacobian import Attention, AttentionJacobian
from rmt.attention.jacobian_draws import Projections, draw_projections, draw_tokens
from rmt.observables.conditioning import condition_number, softmax_pseudo_condition
from rmt.statistics.claims import Claim, bound_claim, verdict_of
from rmt.streams import stream
from rmt.theorems.conditioning_bounds import paper_bound

if TYPE_CHECKING:
    from rmt.experiments.results import Results

PAPER = "spectral-conditioning"
OURS = "derived, see rmt.theorems.conditioning_bounds"
KAPPA = "jacobian_condition_number"
FOLLOWS = 0.7  # rank correlation from which we say that one number follows another
GAINS = (1.0, 1e3, 1e6)


def all_claims(results: Results) -> list[Claim]:
    """Every claim that the settings of this sweep can speak to."""
    return [
        *_literal_bound(results),
        *_pseudo_bound(results),
        *_value_gain(results),
        *_corrections(results),
        *_controls(results),
        *_followers(results),
    ]


def _plain(results: Results) -> list[Any]:
    return results.where(correction="none")


def _label(setting: Any) -> str:
    kind = "" if setting.attention == "softmax" else f"{setting.attention}, "
    mask = "" if setting.mask == "none" else f"{setting.mask}, "
    return f"{kind}{mask}n = {setting.n}, D = {setting.width}, d = {setting.head_dim}"


def _twins(results: Results, setting: Any, *names: str) -> Iterator[Any]:
    """Settings that differ from this one in nothing but the correction, its shift and its norm."""
    for other in results.settings:
        same = all(
            getattr(other, field) == getattr(setting, field)
            for field in (
                "n",
                "width",
                "head_dim",
                "value_dim",
                "heads",
                "attention",
                "mask",
                "scores",
                "tokens",
                "std",
            )
        )
        if same and other.correction in names:
            yield other


def _small_layer(results: Results, gain: float = 1.0) -> AttentionJacobian:
    """n = 4, D = d = 8, the first draw of this seed, values scaled."""
    here = stream(results.seed)
    W = draw_projections(here, 0, 8, 8, 8, std=8**-0.5)
    X = draw_tokens(here, 0, 4, 8, kind="gaussian")
    return AttentionJacobian(X, Projections(W.query, W.key, gain * W.value), Attention())


def _literal_bound(results: Results) -> Iterator[Claim]:
    if any(s.mixes for s in _plain(results)):
        P = _small_layer(results).heads[0].attention
        assert P is not None
        values = np.concatenate([np.linalg.eigvalsh(np.diag(p) - np.outer(p, p)) for p in P])
        zeros = float(np.sum(np.abs(values) < 1e-12 * values.max()))
        yield Claim(
            "the bound of Theorem 3.4 is finite, read literally (no singular value of the softmax derivative is 0)",
            "",
            0.0,
            zeros,
            (zeros, zeros),
            "contradicted",
            "contradicted" if zeros else "supported",
            f"{PAPER}, Theorem 3.4",
            f"n = 4, D = d = 8: {zeros:.0f} of {values.size} singular values below 1e-12 of the largest, one for each row",
        )


def _pseudo_bound(results: Results) -> Iterator[Claim]:
    for setting in _plain(results):
        sample = results.samples[setting]
        if "condition_over_paper_bound" in sample:
            yield bound_claim(
                f"{_label(setting)}: kappa(J) is below Theorem 3.4 over non-zero singular values, as drawn",
                [setting.n],
                [sample["condition_over_paper_bound"]],
                bound=1.0,
                expected="supported",
                source=f"{PAPER}, Theorem 3.4 (pseudo form)",
            )


def _value_gain(results: Results) -> Iterator[Claim]:
    """The right side is blind to W_V -> c W_V, the left side is not: n = 4, D = d = 8, the first draw of this seed."""
    if not any(s.mixes for s in _plain(results)):
        return
    ratios = []
    for gain in GAINS:
        jacobian = _small_layer(results, gain)
        X, W = jacobian.tokens, jacobian.weights
        values = np.linalg.svd(jacobian.dense(), compute_uv=False)
        P = jacobian.heads[0].attention
        kappas = {name: float(condition_number(M)) for name, M in (("tokens", X), ("attention", P))}
        kappas |= {name: float(condition_number(getattr(W, name))) for name in ("query", "key", "value")}
        ratios.append(float(values[0] / values[-1] / paper_bound(softmax=softmax_pseudo_condition(P), **kappas)))
    said = ", ".join(f"{ratio:.2g} at c = {gain:g}" for gain, ratio in zip(GAINS, ratios, strict=True))
    yield Claim(
        "Theorem 3.4 over non-zero singular values holds for every W_V",
        "scale of W_V",
        1.0,
        ratios[-1],
        (ratios[-1], ratios[-1]),
        "contradicted",
        "contradicted" if ratios[-1] > 1 else "supported",
        f"{PAPER}, Theorem 3.4 (pseudo form)",
        f"counterexample n = 4, D = d = 8, W_V -> c W_V: kappa(J)/bound = {said}",
    )


def _corrections(results: Results) -> Iterator[Claim]:
    for setting in _plain(results):
        base = results.samples[setting][KAPPA]
        for other in sorted(_twins(results, setting, "svd", "shift"), key=lambda s: (s.correction, s.shift or 0.0)):
            svd = other.correction == "svd"
            what = "the SVD correction" if svd else f"a shift of {other.shift:g}"
            square = setting.width == setting.head_dim and setting.n <= setting.rank and other.mixes
            expected = None
            if square and other.norm == "free" and other.corrected == "qkv" and other.heads == 1:
                expected = "contradicted" if svd else "supported" if (other.shift or 0.0) >= 2 else None
            extra = "" if other.norm == "free" else ", norm preserved"
            extra += "" if other.corrected == "qkv" else f", on {other.corrected}"
            yield _lowers(
                f"{_label(setting)}: {what}{extra} lowers kappa(J)",
                results.samples[other][KAPPA],
                base,
                expected,
                f"{PAPER}, Theorem {'3.5' if svd else '3.8'}, read as a statement on J",
            )


def _lowers(claim: str, after: np.ndarray, before: np.ndarray, expected: str | None, source: str) -> Claim:
    """Median of the paired ratio below 1; a Jacobian that became singular counts as a ratio above every other."""
    ratio = after / before
    if np.isnan(before).any() or ratio.size < 2:
        return Claim(
            claim, "correction", 1.0, None, None, expected, "undecided", source, "the base is singular in some draws"
        )
    lost = int(np.isnan(after).sum())
    if lost == ratio.size:
        detail = f"J is singular in all {lost} draws"
        return Claim(claim, "correction", 1.0, None, None, expected, "contradicted", source, detail)
    filled = np.where(np.isnan(ratio), 10 * np.nanmax(ratio), ratio)
    found = bound_claim(
        claim, [1], [filled], bound=1.0, along="correction", statistic="median", expected=expected, source=source
    )
    return found if not lost else Claim(**{**vars(found), "detail": f"{found.detail}; J singular in {lost} draws"})


def _controls(results: Results) -> Iterator[Claim]:
    """Same kappa(W), other kappa(J): what helps is that queries and keys are rotated alike."""
    for shared in results.where(correction="orthogonal_shared"):
        for other in _twins(results, shared, "orthogonal_independent"):
            if (other.shift, other.norm, other.corrected) != (shared.shift, shared.norm, shared.corrected):
                continue
            ratio = results.samples[other][KAPPA] / results.samples[shared][KAPPA]
            if np.isnan(ratio).any():
                continue
            dense = shared.width == shared.head_dim and shared.norm == "preserved" and shared.mixes
            yield bound_claim(
                f"{_label(shared)}: at equal kappa(W), shift {shared.shift:g}, independent orthogonal matrices leave kappa(J) "
                "more than 10 times that of a shared one",
                [shared.n],
                [ratio],
                bound=10.0,
                side="lower",
                statistic="median",
                expected="supported" if dense and (shared.shift or 0.0) >= 10 else None,
                source=OURS,
            )


def _followers(results: Results) -> Iterator[Claim]:
    for setting in _plain(results):
        sample = results.samples[setting]
        kappa = sample[KAPPA]
        wide = (setting.value_dim or 0) >= setting.n
        for name, words in (
            ("mixed_token_condition", "kappa(P X)"),
            ("query_condition", "kappa(W_Q)"),
            ("key_condition", "kappa(W_K)"),
            ("value_condition", "kappa(W_V)"),
        ):
            if name in sample and np.isfinite(sample[name]).all() and np.isfinite(kappa).all():
                mixed = name == "mixed_token_condition"
                expected = ("supported" if wide else None) if mixed else "contradicted"
                source = OURS if mixed else f"{PAPER}, sections 3 and 4"
                yield rank_claim(f"{_label(setting)}: kappa(J) follows {words}", sample[name], kappa, expected, source)


def rank_claim(claim: str, x: np.ndarray, y: np.ndarray, expected: str | None, source: str) -> Claim:
    """Spearman's rank correlation against 0.7; interval by Fisher's transform with variance 1.06/(k - 3)."""
    from scipy.special import ndtri
    from scipy.stats import spearmanr

    if x.size < 6:
        return Claim(claim, "draws", FOLLOWS, None, None, expected, "undecided", source, f"{x.size} draws: needs 6")
    found = float(spearmanr(x, y).statistic)
    middle, spread = np.arctanh(np.clip(found, -0.999999, 0.999999)), np.sqrt(1.06 / (x.size - 3))
    ends = [np.tanh([middle + ndtri(tail / 2) * spread, middle - ndtri(tail / 2) * spread]) for tail in (0.05, 1e-3)]
    verdict = verdict_of(bool(ends[0][0] >= FOLLOWS), bool(ends[1][1] < FOLLOWS))
    inner = (float(ends[0][0]), float(ends[0][1]))
    return Claim(
        claim, "draws", FOLLOWS, found, inner, expected, verdict, source, f"rank correlation of {x.size} draws"
    )


def sentence(results: Results) -> str:
    """kappa(J) as drawn and after each correction, and whether queries still learn."""
    parts = []
    for setting in results.settings:
        sample = results.samples[setting]
        if not np.isfinite(sample[KAPPA]).any():
            parts.append(f"{_name(setting)} singular")
            continue
        kappa, share = np.nanmedian(sample[KAPPA]), np.median(sample["query_share"])
        parts.append(f"{_name(setting)} {kappa:.3g} ({share:.2g})")
    return f"Median kappa(J), in brackets |J_Q|/|J_V|: {'; '.join(parts[:8])}."


def _name(setting: Any) -> str:
    extra = "" if setting.shift is None else f" {setting.shift:g}"
    return setting.correction.replace("_", " ") + extra
