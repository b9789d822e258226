"""Race the PyTorch drop-ins: `python -m benchmarks.pytorch_drop_ins [--width 384] [--depth 1] [--batch 64]`; needs torch.

A training step of a ViT-sized encoder with conditioned projections against the same encoder plain (goals: the paper's claim of
no cost, memory within 1 % and time within 3 %), and attention without its outlier against plain attention at n = 4096 (goal: at
most 1.1 times its time). Memory is what is held when the backward pass begins: weights, gradients, Adam's moments, saved tensors.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable
from typing import Any

from benchmarks.race import race


def encoder(width: int, depth: int) -> Any:
    """Layers of torch's own encoder, pre-norm."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(width, width // 64, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)


def step_of(model: Any, x: Any) -> Callable[[], None]:
    """One step of Adam."""
    import torch

    optimiser = torch.optim.Adam(model.parameters(), 1e-4)

    def step() -> None:
        optimiser.zero_grad()
        model(x).square().mean().backward()
        optimiser.step()

    return step


def held(model: Any, x: Any) -> int:
    """Bytes when the backward pass begins."""
    import torch

    seen: dict[int, int] = {}

    def note(tensor: Any) -> Any:
        seen[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        out = model(x)
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    del out
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    return 4 * weights + sum(size for place, size in seen.items() if place not in own)


def main() -> None:
    """Print one line for each race."""
    import torch
    from torch.nn import functional

    from rmt.pytorch import condition, scaled_dot_product_attention

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("width", 384), ("depth", 1), ("batch", 64), ("tokens", 196), ("repeats", 9)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    torch.set_num_threads(1)
    plain = encoder(given.width, given.depth)
    x = torch.randn(given.batch, given.tokens, given.width)
    for method in ("shift", "svd"):
        model = copy.deepcopy(plain)
        condition(model, shift=0.5, method=method)
        ours, theirs = race(step_of(model, x), step_of(copy.deepcopy(plain), x), repeats=given.repeats)
        memory = held(model, x) / held(plain, x) - 1
        time, goals = ours / theirs, "(goals 1.03, +1 %)"
        print(f"training step, {method:5} of q, k, v: time {time:.3f} of plain, memory {memory:+.2%} {goals}")
    q, k, v = torch.randn(3, 1, 4, 4096, 64)
    for causal in (False, True):
        with torch.no_grad():
            ours, theirs = race(
                lambda causal=causal: scaled_dot_product_attention(q, k, v, is_causal=causal),
                lambda causal=causal: functional.scaled_dot_product_attention(q, k, v, is_causal=causal),
                repeats=given.repeats,
            )
        name = "causal" if causal else "bidirectional"
        print(f"attention without its outlier, n = 4096, {name}: time {ours / theirs:.3f} of plain (goal 1.1)")


if __name__ == "__main__":
    main()
