"""Softmax attention without its outlier: A V - alpha mean(V), where the mean is over the keys that a query may see.

A is a random-walk matrix: its leading singular value stands alone, carries the uniform vector, and takes the rank of the
tokens to one. Subtracting the uniform matrix of the same mask (11^T/n; under a causal mask the running mean) removes it and
needs no n x n matrix. alpha = 1 removes it whole, 0 leaves plain attention.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["OutlierRemovedAttention", "scaled_dot_product_attention"]


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    alpha: float | Tensor = 1.0,
) -> Tensor:
    """torch.nn.functional.scaled_dot_product_attention minus alpha times the mean of the values that each query sees.

    query (..., H, L, E), key (..., H, S, E), value (..., H, S, Ev). alpha: a number, or (H,), one for each head. A Boolean mask
    says which keys are seen; of an additive mask those above -inf are. A row that sees no key is left as it is.
    """
    gain = alpha[:, None, None] if isinstance(alpha, Tensor) and alpha.ndim else alpha
    options = {"scale": scale, **({"enable_gqa": True} if enable_gqa else {})}
    if enable_gqa:
        mean_of = value.repeat_interleave(query.shape[-3] // value.shape[-3], dim=-3)
    else:
        mean_of = value
    if attn_mask is None and not is_causal and not dropout_p and not enable_gqa:
        # rows of A sum to 1, so the mean can come off the values: no digits are lost to what is being removed
        centred = value - gain * value.mean(dim=-2, keepdim=True)
        return functional.scaled_dot_product_attention(query, key, centred, **options)
    out = functional.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, **options)
    if is_causal:
        return out - gain * _running_mean(mean_of, query.shape[-2])
    if attn_mask is None:
        return out - gain * mean_of.mean(dim=-2, keepdim=True)
    seen = (attn_mask if attn_mask.dtype == torch.bool else attn_mask > -torch.inf).to(value.dtype)
    if seen.shape[-1] == 1:
        seen = seen.expand(*seen.shape[:-1], value.shape[-2])
    count = seen.sum(dim=-1, keepdim=True).clamp_min(1)
    return out - gain * ((seen @ mean_of) / count)


def _running_mean(value: Tensor, queries: int) -> Tensor:
    """Mean over the keys j <= i for each query i (..., queries, Ev); queries beyond the last key see all of them."""
    keys = value.shape[-2]
    sums = value.cumsum(dim=-2)[..., : min(queries, keys), :]
    if queries > keys:
        sums = torch.cat([sums, sums[..., -1:, :].expand(*sums.shape[:-2], queries - keys, sums.shape[-1])], dim=-2)
    seen = torch.arange(1, queries + 1, device=value.device).clamp_max(keys)
    return sums / seen[:, None].to(value.dtype)


class OutlierRemovedAttention(nn.Module):
    """`scaled_dot_product_attention` with a gain alpha for each head: learnable from `start`, or fixed."""

    alpha: Tensor

    def __init__(self, heads: int, *, start: float = 1.0, learnable: bool = True) -> None:
        super().__init__()
        alpha = torch.full((heads,), float(start))
        if learnable:
            self.alpha = nn.Parameter(alpha)
        else:
            self.register_buffer("alpha", alpha)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        """Attention of (..., H, n, .) tensors with this module's alpha."""
        return scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, alpha=self.alpha.to(query.dtype)
        )
