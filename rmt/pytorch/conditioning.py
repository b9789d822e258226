"""Spectral conditioning of a model in one line: W + C in place of W, through torch.nn.utils.parametrize.

C is constant: W alone is trained, optimiser states and the number of parameters stay what they were. A shift holds one
number and no matrix; the other corrections keep C in a buffer, so that a state_dict carries it. While training, one copy of
each conditioned weight is held from the forward to the backward pass: +0.7 % of all memory at width 384 with 64 sequences of
196 tokens, +3 % with 8 (python -m benchmarks.pytorch_drop_ins). A baked model holds nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from rmt.pytorch.projections import ROLES, Projection, projections

__all__ = ["Conditioned", "bake", "condition", "conditioned_weights", "uncondition"]

METHODS = ("shift", "svd", "orthogonal_shared", "orthogonal_independent")


class Conditioned(nn.Module):
    """W -> gain (W + C), C = shift times an identity in each block of rows, plus `correction`. No trainable parameters.

    blocks: ranges of output channels that get the identity of their own; transposed: W is (in, out). scaled: whether there is
    a gain at all; it is a buffer that starts at 1.
    """

    shift: Tensor
    gain: Tensor
    correction: Tensor | None

    def __init__(
        self,
        blocks: Iterable[tuple[int, int]],
        *,
        shift: float = 0.0,
        correction: Tensor | None = None,
        scaled: bool = False,
        transposed: bool = False,
    ) -> None:
        super().__init__()
        self.blocks = tuple(blocks)
        self.transposed = transposed
        self.scaled = scaled  # a flag, not a look at the gain: that would make every pass wait for the device
        self.register_buffer("shift", torch.tensor(float(shift)))
        self.register_buffer("gain", torch.ones(()))
        self.register_buffer("correction", correction)

    def forward(self, W: Tensor) -> Tensor:
        """gain (W + C)."""
        moved = W.clone() if self.correction is None else W + self.correction
        rows = moved.T if self.transposed else moved
        for start, stop in self.blocks:
            rows[start:stop].diagonal().add_(self.shift.to(rows.dtype))
        return moved * self.gain.to(moved.dtype) if self.scaled else moved

    def extra_repr(self) -> str:
        """Shift and blocks, as printed with the model."""
        return f"shift={float(self.shift):g}, blocks={self.blocks}, gain={float(self.gain):.4g}"


def condition(
    model: nn.Module,
    *,
    shift: float = 10.0,
    method: str = "shift",
    roles: Iterable[str] = ROLES,
    pattern: str | None = None,
    layout: str | tuple[int, int, int] = "thirds",
    heads: int | None = None,
    placement: str = "fused",
    norm_preserving: bool = False,
    seed: int = 0,
) -> list[str]:
    """Condition the query, key and value projections of a model in place; returns the names of the weights.

    shift: lambda; 10 is the paper's, and freezes queries and keys of layer-normed inputs at initialisation: with n tokens
        and heads of d channels stay below sqrt(log n / (2 sqrt d)) (0.6 at n = 256, d = 64) to keep attention soft.
    method: "shift" (lambda I), "svd" (kappa < 2), or lambda times an orthogonal matrix, shared by queries and keys or
        independent (shared where their shapes agree): controls with the same condition number as the shift.
    roles: which of "query", "key", "value". pattern, layout: see `rmt.pytorch.projections`.
    placement: "fused" gives head h the identity on its own block of inputs, "per_head" gives every head the first inputs;
        needs `heads`. norm_preserving: scale W + C to |W|_F as it is now.

    Raises ValueError, changing nothing, when no projection is found or one is conditioned already.
    """
    recipe = _Recipe(method, shift, tuple(roles), heads, placement, norm_preserving)
    found = [
        p for p in projections(model, pattern=pattern, layout=layout, heads=heads) if set(p.rows) & set(recipe.roles)
    ]
    if not found:
        linear = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)][:8]
        raise ValueError(
            f"no query, key or value projection found (pattern {pattern!r}); linear layers are {', '.join(linear) or 'none'}: "
            "rename them, or condition one weight with torch.nn.utils.parametrize and rmt.pytorch.Conditioned"
        )
    for p in found:
        if parametrize.is_parametrized(model.get_submodule(p.module), p.parameter):
            raise ValueError(f"{p.name} is parametrised already; call uncondition or bake first")
        if not _weight(model, p).is_floating_point():
            raise ValueError(f"{p.name} holds {_weight(model, p).dtype}; condition a model before it is quantised")
    bases = _Bases(seed)
    made = [recipe.conditioned(p, _weight(model, p).detach(), bases) for p in found]
    for p, step in zip(found, made, strict=True):
        step.to(_weight(model, p).device)
        parametrize.register_parametrization(model.get_submodule(p.module), p.parameter, step)
    return [p.name for p in found]


def _weight(model: nn.Module, p: Projection) -> Tensor:
    return getattr(model.get_submodule(p.module), p.parameter)


@dataclass(frozen=True)
class _Recipe:
    """What `condition` was asked for, checked."""

    method: str
    shift: float
    roles: tuple[str, ...]
    heads: int | None
    placement: str
    norm_preserving: bool

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method {self.method!r} is unknown; choose from {', '.join(METHODS)}")
        if unknown := set(self.roles) - set(ROLES):
            raise ValueError(f"roles {sorted(unknown)} are unknown; choose from {', '.join(ROLES)}")
        if not math.isfinite(self.shift):
            raise ValueError(f"shift {self.shift} is not finite; give a number such as 0.5")

    def conditioned(self, p: Projection, weight: Tensor, bases: _Bases) -> Conditioned:
        """The parametrisation of one weight."""
        W = weight.T if p.transposed else weight
        parts = [(role, at) for role in ROLES if role in self.roles for at in p.rows.get(role, ())]
        if self.method == "shift":
            blocks = [block for _, at in parts for block in self._blocks(p, *at)]
            made = Conditioned(blocks, shift=self.shift, scaled=self.norm_preserving, transposed=p.transposed)
        else:
            correction = torch.zeros_like(W)
            for role, (start, stop) in parts:
                correction[start:stop] = self._correction(p, role, start, W[start:stop], bases).to(W.dtype)
            correction = correction.T.contiguous() if p.transposed else correction
            made = Conditioned((), correction=correction, scaled=self.norm_preserving, transposed=p.transposed)
        if self.norm_preserving:
            moved = made.to(weight.device)(weight)
            made.gain.fill_(float(weight.norm()) / float(moved.norm()))
        return made

    def _correction(self, p: Projection, role: str, start: int, W: Tensor, bases: _Bases) -> Tensor:
        if self.method == "svd":
            U, S, Vh = torch.linalg.svd(W.float(), full_matrices=False)
            return S[0] * (U @ Vh)
        layer = p.module if len(p.rows) > 1 else p.module.rpartition(".")[0]
        shared = self.method == "orthogonal_shared" and role in ("query", "key")
        name = (layer, start - p.rows[role][0][0], *W.shape) if shared else None
        return self.shift * bases.orthogonal(W.shape, name).to(W.device)

    def _blocks(self, p: Projection, start: int, stop: int) -> list[tuple[int, int]]:
        if self.placement == "fused":
            return [(start, stop)]
        if self.placement != "per_head" or not self.heads or (stop - start) % self.heads:
            channels = stop - start
            raise ValueError(
                f"{p.name}: placement {self.placement!r} with heads = {self.heads} does not split {channels} channels"
            )
        size = (stop - start) // self.heads
        return [(at, at + size) for at in range(start, stop, size)]


class _Bases:
    """Haar orthonormal matrices from one seed; a name gives the same matrix again."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self._named: dict[tuple, Tensor] = {}

    def orthogonal(self, shape: torch.Size, name: tuple | None) -> Tensor:
        if name in self._named:
            return self._named[name]
        normals = torch.randn(max(shape), min(shape), generator=self._generator, dtype=torch.float64)
        Q, R = torch.linalg.qr(normals)
        Q = Q * torch.sign(torch.diagonal(R))
        found = (Q if shape[0] >= shape[1] else Q.T).float()
        if name is not None:
            self._named[name] = found
        return found


def conditioned_weights(model: nn.Module) -> Iterator[tuple[str, nn.Module, str]]:
    """(full name, module, parameter) of every weight that `condition` has changed."""
    for name, module in model.named_modules():
        if not parametrize.is_parametrized(module):
            continue
        for parameter, chain in module.parametrizations.items():
            if any(isinstance(step, Conditioned) for step in chain):
                yield (f"{name}.{parameter}" if name else parameter), module, parameter


def uncondition(model: nn.Module) -> list[str]:
    """Take every correction off again: the weights are W, as trained. Returns their names."""
    return _remove(model, leave=False)


def bake(model: nn.Module) -> list[str]:
    """Make every conditioned weight a plain parameter W + C: same outputs, no parametrisation left. Returns their names."""
    return _remove(model, leave=True)


def _remove(model: nn.Module, *, leave: bool) -> list[str]:
    found = list(conditioned_weights(model))
    for _, module, parameter in found:
        parametrize.remove_parametrizations(module, parameter, leave_parametrized=leave)
    return [name for name, _, _ in found]
