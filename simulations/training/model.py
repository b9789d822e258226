"""A small transformer: softmax, windowed, cross-covariance or Nystrom attention; pre, post or no layer norm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from rmt.pytorch import scaled_dot_product_attention

__all__ = ["Architecture", "Attention", "Transformer"]


@dataclass(frozen=True)
class Architecture:
    """Sizes and kind of a model. norm: "pre", "post" or "none"; branch: factor of every residual branch."""

    n: int
    classes: int
    features: int | None
    vocabulary: int | None
    per_token: bool
    width: int = 32
    heads: int = 2
    depth: int = 2
    attention: str = "softmax"
    causal: bool = False
    window: int = 4
    landmarks: int = 4
    norm: str = "pre"
    branch: float = 1.0


class Attention(nn.Module):
    """Multi-head attention with separate projections. `alpha` removes the outlier (0: plain); `gain` scales the branch."""

    def __init__(self, arch: Architecture) -> None:
        super().__init__()
        self.arch = arch
        self.query, self.key, self.value, self.out = (nn.Linear(arch.width, arch.width, bias=False) for _ in range(4))
        self.alpha: Tensor | None = None
        self.register_buffer("gain", torch.ones(()))
        place = torch.arange(arch.n)
        block = place[:, None] // arch.window == place // arch.window
        self.register_buffer("allowed", block if arch.attention == "window" else None, persistent=False)

    def learn_alpha(self, start: float, *, learnable: bool) -> None:
        """Remove the outlier with a gain for each head."""
        alpha = torch.full((self.arch.heads,), start)
        del self.alpha
        if learnable:
            self.alpha = nn.Parameter(alpha)
        else:
            self.register_buffer("alpha", alpha)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            layer(x).unflatten(-1, (self.arch.heads, -1)).transpose(-3, -2)
            for layer in (self.query, self.key, self.value)
        )
        mixed = self.mix(q, k, v)
        return self.gain * self.out(mixed.transpose(-3, -2).flatten(-2))

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attention of each head, (batch, heads, n, channels)."""
        kind = self.arch.attention
        if kind == "xcit":
            scores = functional.normalize(q, dim=-2).transpose(-1, -2) @ functional.normalize(k, dim=-2)
            return v @ torch.softmax(scores, dim=-1).transpose(-1, -2)
        if kind == "nystrom":
            return _nystrom(q, k, v, self.arch.landmarks)
        mask = {"attn_mask": self.allowed} if kind == "window" else {"is_causal": self.arch.causal}
        if self.alpha is None:
            return functional.scaled_dot_product_attention(q, k, v, **mask)
        return scaled_dot_product_attention(q, k, v, alpha=self.alpha, **mask)


def _nystrom(q: Tensor, k: Tensor, v: Tensor, landmarks: int) -> Tensor:
    n, scale = q.shape[-2], q.shape[-1] ** -0.5
    segment = torch.arange(n) * landmarks // n
    member = (segment == torch.arange(landmarks)[:, None]).to(q.dtype)
    means = member / member.sum(dim=1, keepdim=True)
    F, A, B = (
        torch.softmax(scale * a @ b.mT, dim=-1) for a, b in ((q, means @ k), (means @ q, means @ k), (means @ q, k))
    )
    return F @ torch.linalg.pinv(A, rcond=1e-4) @ (B @ v)


class Block(nn.Module):
    """Attention and an MLP, each on a residual branch."""

    def __init__(self, arch: Architecture) -> None:
        super().__init__()
        self.arch = arch
        normed = arch.norm != "none"
        self.norms = nn.ModuleList([nn.LayerNorm(arch.width) if normed else nn.Identity() for _ in range(2)])
        self.attention = Attention(arch)
        self.mlp = nn.Sequential(
            nn.Linear(arch.width, 2 * arch.width), nn.GELU(), nn.Linear(2 * arch.width, arch.width)
        )

    def attention_input(self, x: Tensor) -> Tensor:
        """What the attention of this block sees."""
        return self.norms[0](x) if self.arch.norm == "pre" else x

    def forward(self, x: Tensor) -> Tensor:
        for norm, branch in zip(self.norms, (self.attention, self.mlp), strict=True):
            if self.arch.norm == "pre":
                x = x + self.arch.branch * branch(norm(x))
            else:
                x = norm(x + self.arch.branch * branch(x))
        return x


class Transformer(nn.Module):
    """Embedding, blocks, head: one answer for each sequence (mean of the tokens) or for each token."""

    def __init__(self, arch: Architecture) -> None:
        super().__init__()
        self.arch = arch
        if arch.vocabulary is None:
            self.embed: nn.Module = nn.Linear(arch.features or 1, arch.width)
        else:
            self.embed = nn.Embedding(arch.vocabulary, arch.width)
        self.position = nn.Parameter(torch.zeros(arch.n, arch.width))
        self.blocks = nn.ModuleList([Block(arch) for _ in range(arch.depth)])
        self.last = nn.LayerNorm(arch.width) if arch.norm == "pre" else nn.Identity()
        self.head = nn.Linear(arch.width, arch.classes)

    def forward(self, inputs: Tensor, *, watch: Callable[[int, Tensor], None] | None = None) -> Tensor:
        """Answers (batch, classes) or (batch, n, classes); `watch` is shown the attention input of every block."""
        x = self.embed(inputs) + self.position
        for number, block in enumerate(self.blocks):
            if watch is not None:
                watch(number, block.attention_input(x))
            x = block(x)
        x = self.last(x)
        return self.head(x if self.arch.per_token else x.mean(dim=-2))
