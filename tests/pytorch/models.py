"""Small models in the styles people use: encoder layer, GPT-2 block (fused Conv1D), ViT block, separate projections."""

import torch
from torch import nn
from torch.nn import functional


class Conv1D(nn.Module):
    """GPT-2's linear layer, weight (in, out)."""

    def __init__(self, nf, nx):
        super().__init__()
        self.nf = nf
        self.weight = nn.Parameter(0.02 * torch.randn(nx, nf))
        self.bias = nn.Parameter(torch.zeros(nf))

    def forward(self, x):
        return x @ self.weight + self.bias


def attend(x, queries, keys, values, heads, causal=False):
    parts = [t.unflatten(-1, (heads, -1)).transpose(-3, -2) for t in (queries, keys, values)]
    return functional.scaled_dot_product_attention(*parts, is_causal=causal).transpose(-3, -2).flatten(-2)


class GPT2Block(nn.Module):
    def __init__(self, width=24, heads=3):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.ModuleDict({"c_attn": Conv1D(3 * width, width), "c_proj": Conv1D(width, width)})
        self.mlp = nn.Sequential(Conv1D(4 * width, width), nn.GELU(), Conv1D(width, 4 * width))

    def forward(self, x):
        parts = self.attn["c_attn"](self.ln_1(x)).chunk(3, dim=-1)
        x = x + self.attn["c_proj"](attend(x, *parts, self.heads, causal=True))
        return x + self.mlp(self.ln_2(x))


class ViTBlock(nn.Module):
    def __init__(self, width=24, heads=3):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.ModuleDict({"qkv": nn.Linear(width, 3 * width), "proj": nn.Linear(width, width)})
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        parts = self.attn["qkv"](self.norm1(x)).chunk(3, dim=-1)
        x = x + self.attn["proj"](attend(x, *parts, self.heads))
        return x + self.mlp(self.norm2(x))


class SeparateBlock(nn.Module):
    """Hugging Face style: q_proj, k_proj, v_proj, with grouped keys and values half as wide."""

    def __init__(self, width=24, heads=4):
        super().__init__()
        self.heads = heads
        self.self_attn = nn.ModuleDict(
            {
                "q_proj": nn.Linear(width, width, bias=False),
                "k_proj": nn.Linear(width, width // 2, bias=False),
                "v_proj": nn.Linear(width, width // 2, bias=False),
                "o_proj": nn.Linear(width, width, bias=False),
            }
        )

    def forward(self, x):
        q, k, v = (self.self_attn[f"{name}_proj"](x) for name in "qkv")
        q, k, v = (t.unflatten(-1, (-1, x.shape[-1] // self.heads)).transpose(-3, -2) for t in (q, k, v))
        k, v = (t.repeat_interleave(2, dim=-3) for t in (k, v))
        out = functional.scaled_dot_product_attention(q, k, v).transpose(-3, -2).flatten(-2)
        return x + self.self_attn["o_proj"](out)


def encoder_layer():
    return nn.TransformerEncoderLayer(24, 3, 48, dropout=0.0, batch_first=True)


MODELS = {"encoder": encoder_layer, "gpt2": GPT2Block, "vit": ViTBlock, "separate": SeparateBlock}
