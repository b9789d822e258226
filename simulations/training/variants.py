"""How a model is altered before it is trained: conditioned weights, removed outlier, scaled branches."""

from __future__ import annotations

import torch
from torch import Tensor

from rmt.pytorch import condition
from simulations.training.model import Architecture, Transformer

__all__ = ["CONDITIONED", "VARIANTS", "altered", "branch_factor"]

CONDITIONED = ("shift", "svd", "orthogonal_shared", "orthogonal_independent")
REMOVED = {"outlier_removed": (1.0, False), "alpha_from_1": (1.0, True), "alpha_from_0": (0.0, True)}
VARIANTS = ("none", *CONDITIONED, *REMOVED, "residual_scaled", "energy_matched")


def branch_factor(variant: str, depth: int) -> float:
    """Factor of every residual branch: 1, or 1/sqrt(2 depth) for "residual_scaled"."""
    return (2 * depth) ** -0.5 if variant == "residual_scaled" else 1.0


def altered(
    model: Transformer,
    variant: str,
    *,
    shift: float | None,
    norm_preserving: bool,
    roles: str,
    seed: int,
    inputs: Tensor,
) -> Transformer:
    """Alter a freshly drawn model in place. inputs: a batch by which "energy_matched" measures its branches."""
    if variant in CONDITIONED:
        names = [name for name in ("query", "key", "value") if name[0] in roles]
        condition(
            model,
            method=variant,
            shift=shift or 0.0,
            roles=names,
            pattern=r"\.attention\.",
            norm_preserving=norm_preserving,
            seed=seed,
        )
    elif variant in REMOVED:
        start, learnable = REMOVED[variant]
        for block in model.blocks:
            block.attention.learn_alpha(start, learnable=learnable)
    elif variant == "energy_matched":
        _match_energy(model, inputs)
    return model


def _match_energy(model: Transformer, inputs: Tensor) -> None:
    """Give every attention branch, outlier kept, the energy it would have at this point with its outlier removed."""
    arch: Architecture = model.arch

    def watch(number: int, x: Tensor) -> None:
        attention = model.blocks[number].attention
        plain = attention(x).norm()
        attention.alpha = torch.ones(arch.heads)
        removed = attention(x).norm()
        attention.alpha = None
        attention.gain.mul_(removed / plain)

    with torch.no_grad():
        model(inputs, watch=watch)
