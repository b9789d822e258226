"""The plain sentence of width_collapse: theory, practice and the repair, at the largest n."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from rmt.experiments.results import Results

REPAIRS = {"running_mean_removed": "removing the running mean", "outlier_removed": "removing the outlier"}


def width_summary(results: Results) -> str:
    """One or two sentences; under a causal mask there is a ladder of large values and no single outlier."""
    n = max(s.n for s in results.settings)
    masks = list(dict.fromkeys(s.mask for s in results.settings))
    parts = [part for mask in masks for part in _parts(results, n, mask)]
    return (f"At n = {n} " + "; ".join(parts) + ".") if parts else ""


def _median(results: Results, quantity: str, **fields: Any) -> float | None:
    found = [results.samples[s][quantity] for s in results.where(**fields) if quantity in results.samples[s]]
    return float(np.nanmedian(np.concatenate(found))) if found and np.isfinite(np.concatenate(found)).any() else None


def _parts(results: Results, n: int, mask: str) -> list[str]:
    at = {"n": n, "mask": mask}
    parts = [_ladder(results, n)] if mask == "causal" else _gaps(results, at)
    kept = _median(results, "token_stable_rank", variant="plain", **at)
    for variant, repair in REPAIRS.items():
        removed = _median(results, "token_stable_rank", variant=variant, **at)
        if kept is not None and removed is not None:
            does = "raises" if removed > kept else "takes"
            parts.append(f"{repair} {does} the stable rank of the tokens from {kept:.3g} to {removed:.3g}")
            break
    return [part for part in parts if part]


def _gaps(results: Results, at: dict[str, Any]) -> list[str]:
    iid, keyquery = (_median(results, "gap_ratio", model=m, variant="plain", **at) for m in ("iid", "keyquery"))
    parts = []
    if iid is not None:
        parts.append(f"with iid logits, as in theory, the second singular value is {iid:.2g} of the first")
    if keyquery is not None:
        parts.append(f"with key-query logits, as in practice, it is {keyquery:.2g} of it")
    return parts


def _ladder(results: Results, n: int) -> str:
    """The rungs of the first causal setting of that size, and how many stand out."""
    settings = results.where(n=n, mask="causal", variant="plain")
    if not settings:
        return ""
    rungs = np.nanmedian(results.samples[settings[0]]["singular_value"], axis=0)[:4]
    text = "under the causal mask there is no single outlier but a growing ladder of singular values, " + ", ".join(
        f"{value:.3g}" for value in rungs[np.isfinite(rungs)]
    )
    count = results.samples[settings[0]].get("outlier_count")
    if count is None or not np.isfinite(count).any():
        return text
    predict = results.experiment.predict
    expected = predict(settings[0]).get("outlier_count") if predict else None
    told = f" (predicted {expected.value:.2g})" if expected is not None and expected.in_range else ""
    return f"{text}; {np.nanmean(count):.2g} of them{told} stand out of what is left without the running mean"
