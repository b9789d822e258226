"""The story that a report tells: experiments in the order in which they should be read."""

from __future__ import annotations

from collections.abc import Sequence

from rmt.experiments.cli import experiments

PARTS: dict[str, tuple[str, ...]] = {
    "One layer: the spectral gap and rank collapse in width": ("width_collapse", "bulk_law", "edge_fluctuations"),
    "Where practice lies": ("phase_diagram", "blind_test"),
    "Many layers: rank collapse in depth, gradients, repairs": (
        "depth_collapse",
        "gradient_norms",
        "variants",
        "cause_and_effect",
        "reference_figures",
    ),
    "Conditioning": ("weight_conditioning", "jacobian_conditioning", "conditioned_training"),
    "Training dynamics of softmax attention": ("softmax_regression",),
    "Residual connections": ("residual_conditioning", "residual_convergence"),
}
LONG = ("conditioned_training", "blind_test")  # told only when asked for by name: their default takes many minutes


def chosen(names: Sequence[str]) -> dict[str, list[str]]:
    """Part -> experiments, in the order of the story; all but the long ones without names.

    A name may be the path of an experiment of one's own. Raises ValueError for a name that is no experiment.
    """
    known = experiments()
    for name in names:
        if name not in known and not name.endswith(".py"):
            raise ValueError(f"{name}: no such experiment; there are {', '.join(known)}")
    told = {name for part in PARTS.values() for name in part}
    wanted = set(names) if names else set(known) - set(LONG)
    parts = {part: [name for name in members if name in wanted & set(known)] for part, members in PARTS.items()}
    parts["More"] = sorted(wanted - told)
    return {part: members for part, members in parts.items() if members}
