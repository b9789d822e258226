"""Attention without its outlier: equal to (A - J) V written out, for every mask; gains, gradients, cost."""

import pytest

pytestmark = pytest.mark.models


def tensors(heads=3, queries=7, keys=7, kv_heads=None, dtype=None):
    import torch

    generator = torch.Generator().manual_seed(0)
    shapes = ((2, heads, queries, 4), (2, kv_heads or heads, keys, 4), (2, kv_heads or heads, keys, 5))
    return [torch.randn(shape, generator=generator, dtype=dtype or torch.float64) for shape in shapes]


def written_out(q, k, v, seen, alpha):
    """(A - alpha U) V with U uniform on the keys that are seen."""
    import torch

    scores = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).masked_fill(~seen, -torch.inf)
    uniform = seen.to(q.dtype) / seen.sum(dim=-1, keepdim=True)
    return (torch.softmax(scores, dim=-1) - alpha * uniform) @ v


@pytest.mark.parametrize("queries, keys", [(7, 7), (5, 7), (9, 7)])
@pytest.mark.parametrize("mask", ["none", "causal", "boolean", "additive", "padding"])
@pytest.mark.parametrize("alpha", [1.0, 0.3])
def test_equal_to_the_matrix_written_out(queries, keys, mask, alpha):
    import torch

    from rmt.pytorch import scaled_dot_product_attention

    q, k, v = tensors(queries=queries, keys=keys)
    seen = torch.ones(queries, keys, dtype=torch.bool)
    options = {}
    if mask == "causal":
        seen, options = seen.tril(), {"is_causal": True}
    elif mask == "boolean":
        seen = seen.tril(2)
        options = {"attn_mask": seen}
    elif mask == "additive":
        seen = seen.tril(1)
        options = {"attn_mask": torch.zeros(queries, keys, dtype=q.dtype).masked_fill(~seen, -torch.inf)}
    elif mask == "padding":
        seen = (torch.arange(keys) < 4)[None, None, None, :].expand(2, 1, 1, keys)
        options = {"attn_mask": seen}
    found = scaled_dot_product_attention(q, k, v, alpha=alpha, **options)
    assert (found - written_out(q, k, v, seen, alpha)).abs().max() < 1e-6


def test_grouped_queries_and_a_gain_for_each_head():
    import torch

    from rmt.pytorch import scaled_dot_product_attention

    q, k, v = tensors(heads=4, kv_heads=2)
    alpha = torch.tensor([0.0, 0.5, 1.0, 2.0], dtype=q.dtype)
    for causal in (False, True):
        found = scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True, alpha=alpha)
        seen = torch.ones(7, 7, dtype=torch.bool)
        seen = seen.tril() if causal else seen
        k4, v4 = (t.repeat_interleave(2, dim=1) for t in (k, v))
        assert (found - written_out(q, k4, v4, seen, alpha[:, None, None])).abs().max() < 1e-6


def test_alpha_zero_is_plain_attention_and_alpha_learns():
    import torch
    from torch.nn import functional

    from rmt.pytorch import OutlierRemovedAttention

    q, k, v = tensors()
    layer = OutlierRemovedAttention(3, start=0.0).double()
    out = layer(q, k, v, is_causal=True)
    assert torch.allclose(out, functional.scaled_dot_product_attention(q, k, v, is_causal=True))
    out.square().sum().backward()
    assert layer.alpha.grad.abs().min() > 0
    fixed = OutlierRemovedAttention(3, learnable=False)
    assert not list(fixed.parameters()) and "alpha" in fixed.state_dict()


def test_dropout_scales_the_attention_only():
    import torch

    from rmt.pytorch import scaled_dot_product_attention

    q, k, v = tensors()
    torch.manual_seed(0)
    dropped = torch.stack([scaled_dot_product_attention(q, k, v, dropout_p=0.5) for _ in range(4000)]).mean(dim=0)
    # unbiased: 4000 drops leave a standard error of at most .03 on numbers of order 1
    assert (dropped - scaled_dot_product_attention(q, k, v)).abs().max() < 0.15
