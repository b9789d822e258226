"""Where the query, key and value projections of a module are: by class, by name, separate or fused."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import nn

__all__ = ["Projection", "projections"]

SEPARATE = {
    "query": r"(^|[._])(q|query|queries|q_proj|to_q|wq|q_lin|query_proj|W_Q)$",
    "key": r"(^|[._])(k|key|keys|k_proj|to_k|wk|k_lin|key_proj|W_K)$",
    "value": r"(^|[._])(v|value|values|v_proj|to_v|wv|v_lin|value_proj|W_V)$",
}
FUSED = r"(^|[._])(qkv|c_attn|in_proj|query_key_value|qkv_proj|to_qkv|Wqkv|attn_qkv|W_pack)$"
ROLES = ("query", "key", "value")


@dataclass(frozen=True)
class Projection:
    """One weight that holds one or several of W_Q, W_K, W_V.

    module: its name; parameter: the weight's name in it. rows: for each role held, the ranges of output channels it takes.
    transposed: the weight is (in, out), as in GPT-2's Conv1D; torch's own order is (out, in).
    """

    module: str
    parameter: str
    rows: dict[str, tuple[tuple[int, int], ...]]
    transposed: bool = False

    @property
    def name(self) -> str:
        """The parameter's full name."""
        return f"{self.module}.{self.parameter}" if self.module else self.parameter


def projections(
    model: nn.Module,
    *,
    pattern: str | None = None,
    layout: str | Sequence[int] = "thirds",
    heads: int | None = None,
) -> list[Projection]:
    """The projections of every attention layer of a model.

    nn.MultiheadAttention is known by its class; Linear and Conv1D (GPT-2) layers by their names, as used in torch, timm and
    Hugging Face. pattern: a regular expression that the module's full name must contain as well. layout of fused weights:
    "thirds" (all queries, all keys, all values), "interleaved" (q, k, v of each head together; needs `heads`), or three
    numbers of output channels (grouped queries).
    """
    found = [p for name, module in model.named_modules() for p in _of(name, module, layout, heads)]
    if pattern is not None:
        found = [p for p in found if re.search(pattern, p.module)]
    return found


def _of(name: str, module: nn.Module, layout: str | Sequence[int], heads: int | None) -> Iterator[Projection]:
    if isinstance(module, nn.MultiheadAttention):
        if module.in_proj_weight is not None:
            yield Projection(name, "in_proj_weight", _fused(module.in_proj_weight.shape[0], "thirds", None, name))
        else:
            for role in ROLES:
                weight = getattr(module, f"{role[0]}_proj_weight")
                yield Projection(name, f"{role[0]}_proj_weight", {role: ((0, weight.shape[0]),)})
        return
    weight = getattr(module, "weight", None)
    transposed = type(module).__name__.endswith("Conv1D") and hasattr(module, "nf")
    if not (isinstance(module, nn.Linear) or transposed) or weight is None or weight.ndim != 2:
        return
    channels = weight.shape[1 if transposed else 0]
    if re.search(FUSED, name):
        yield Projection(name, "weight", _fused(channels, layout, heads, name), transposed)
        return
    for role, known in SEPARATE.items():
        if re.search(known, name):
            yield Projection(name, "weight", {role: ((0, channels),)}, transposed)


def _fused(
    channels: int, layout: str | Sequence[int], heads: int | None, name: str
) -> dict[str, tuple[tuple[int, int], ...]]:
    """Ranges of output channels of each role in a fused weight."""
    if not isinstance(layout, str):
        sizes = tuple(layout)
        if len(sizes) != 3 or sum(sizes) != channels:
            raise ValueError(
                f"{name}: layout {sizes} does not add up to its {channels} channels; give three sizes that do"
            )
        ends = (0, sizes[0], sizes[0] + sizes[1], channels)
        return {role: ((ends[i], ends[i + 1]),) for i, role in enumerate(ROLES)}
    if layout == "thirds":
        return _fused(channels, _thirds(channels, name), None, name)
    if layout != "interleaved" or not heads or channels % (3 * heads):
        raise ValueError(
            f"{name}: layout {layout!r} with heads = {heads} does not fit {channels} channels; see `projections`"
        )
    size = channels // (3 * heads)
    return {
        role: tuple(((3 * h + i) * size, (3 * h + i + 1) * size) for h in range(heads)) for i, role in enumerate(ROLES)
    }


def _thirds(channels: int, name: str) -> tuple[int, int, int]:
    if channels % 3:
        raise ValueError(f"{name}: {channels} channels do not split into thirds; give layout=(queries, keys, values)")
    return (channels // 3,) * 3
