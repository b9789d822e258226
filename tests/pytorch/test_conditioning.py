"""Conditioning a model: what changes in the weights, training, saving, loading, baking, taking off, and refusals."""

import copy

import pytest

pytestmark = pytest.mark.models


def build(name, seed=0):
    import torch

    from tests.pytorch.models import MODELS

    torch.manual_seed(seed)
    return MODELS[name]()


def data(n=6):
    import torch

    return torch.randn(4, n, 24, generator=torch.Generator().manual_seed(1))


names = pytest.mark.parametrize("name", ["encoder", "gpt2", "vit", "separate"])


def train(model, steps=4):
    import torch

    optimiser = torch.optim.Adam(model.parameters(), 1e-3)
    losses = []
    for _ in range(steps):
        loss = (model(data()) - data().flip(1)).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


@names
@pytest.mark.parametrize("method", ["shift", "svd", "orthogonal_shared", "orthogonal_independent"])
def test_trains_saves_loads_and_bakes(name, method, tmp_path):
    import torch

    from rmt.pytorch import bake, condition, conditioned_weights

    model = build(name)
    count = sum(p.numel() for p in model.parameters())
    weights = condition(model, shift=0.5, method=method)
    assert sum(p.numel() for p in model.parameters()) == count and len(weights) == (3 if name == "separate" else 1)
    losses = train(model)
    assert losses[-1] < losses[0]
    torch.save(model.state_dict(), tmp_path / "state.pt")
    other = build(name, seed=5)
    condition(other, shift=7.0, method=method)
    other.load_state_dict(torch.load(tmp_path / "state.pt"))
    model.eval(), other.eval()
    with torch.no_grad():
        out = model(data())
        assert torch.allclose(other(data()), out, atol=1e-6)
        assert sorted(bake(other)) == sorted(weights) and not list(conditioned_weights(other))
        assert torch.allclose(other(data()), out, atol=1e-6)
        plain = build(name, seed=9)
        plain.load_state_dict(other.state_dict())  # a baked model is an ordinary one
        assert torch.allclose(plain.eval()(data()), out, atol=1e-6)


def test_a_safetensors_file_holds_a_conditioned_model(tmp_path):
    import torch
    from safetensors.torch import load_file, save_file

    from rmt.pytorch import condition

    model, other = build("gpt2"), build("gpt2", seed=3)
    condition(model, method="svd")
    condition(other, method="svd")
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    other.load_state_dict(load_file(tmp_path / "model.safetensors"))
    assert torch.allclose(other(data()), model(data()), atol=1e-6)


@names
def test_taking_it_off_gives_the_weights_back(name):
    import torch

    from rmt.pytorch import condition, uncondition

    model = build(name)
    before = copy.deepcopy(model.state_dict())
    with torch.no_grad():
        plain = model(data())
        condition(model, shift=3.0)
        assert not torch.allclose(model(data()), plain, atol=1e-3)
        uncondition(model)
        assert torch.equal(model(data()), plain)
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


def test_the_identity_stands_where_it_should():
    import torch

    from rmt.pytorch import condition

    eye = torch.eye(24)
    gpt2, vit, separate = build("gpt2"), build("vit"), build("separate")
    before = [
        m.clone() for m in (gpt2.attn["c_attn"].weight, vit.attn["qkv"].weight, separate.self_attn["k_proj"].weight)
    ]
    condition(gpt2, shift=2.0, roles=("query", "value"))
    condition(vit, shift=2.0, heads=3, placement="per_head")
    condition(separate, shift=2.0, pattern="k_proj")
    moved = [gpt2.attn["c_attn"].weight, vit.attn["qkv"].weight, separate.self_attn["k_proj"].weight]
    gained = [(after - old) / 2 for after, old in zip(moved, before, strict=True)]
    assert torch.allclose(gained[0], torch.cat([eye, 0 * eye, eye], dim=1), atol=1e-6)
    assert torch.allclose(gained[1], eye[:8].repeat(9, 1), atol=1e-6)
    assert torch.allclose(gained[2], eye[:12], atol=1e-6)


def test_interleaved_and_grouped_layouts():
    from torch import nn

    from rmt.pytorch import projections

    model = nn.ModuleDict({"query_key_value": nn.Linear(8, 24)})
    rows = projections(model, layout="interleaved", heads=2)[0].rows
    assert rows["key"] == ((4, 8), (16, 20))
    assert projections(model, layout=(16, 4, 4))[0].rows["value"] == ((20, 24),)
    with pytest.raises(ValueError, match="does not add up"):
        projections(model, layout=(8, 8, 4))


def test_condition_numbers_and_norms():
    import torch

    from rmt.pytorch import condition

    model = build("separate")
    W = model.self_attn["q_proj"].weight.detach().clone()
    condition(model, method="svd", norm_preserving=True)
    moved = model.self_attn["q_proj"].weight.detach()
    kappa = torch.linalg.cond(W)
    assert torch.isclose(torch.linalg.cond(moved), 2 * kappa / (1 + kappa), rtol=1e-3)
    assert torch.isclose(moved.norm(), W.norm())


def test_shared_orthogonal_matrices_are_shared_by_queries_and_keys_only():
    import torch

    from rmt.pytorch import condition

    for method, alike in (("orthogonal_shared", True), ("orthogonal_independent", False)):
        model = build("vit")
        W = model.attn["qkv"].weight.detach().clone()
        condition(model, shift=1.0, method=method)
        q, k, v = (model.attn["qkv"].weight.detach() - W).chunk(3)
        assert torch.allclose(q @ q.T, torch.eye(24), atol=1e-5)
        assert torch.allclose(q, k, atol=1e-5) == alike and not torch.allclose(q, v, atol=1e-2)


def test_multihead_attention_with_other_key_widths():
    import torch
    from torch import nn

    from rmt.pytorch import bake, condition

    torch.manual_seed(0)
    layer = nn.MultiheadAttention(24, 3, kdim=16, vdim=12, batch_first=True)
    assert len(condition(layer, shift=0.5)) == 3
    q, k, v = torch.randn(2, 5, 24), torch.randn(2, 7, 16), torch.randn(2, 7, 12)
    out = layer(q, k, v)[0]
    bake(layer)
    assert torch.allclose(layer(q, k, v)[0], out, atol=1e-6)


def test_half_precision_keeps_its_type():
    import torch

    from rmt.pytorch import condition

    model = build("vit").to(torch.bfloat16)
    condition(model, shift=0.5)
    assert model.attn["qkv"].weight.dtype == torch.bfloat16


@pytest.mark.parametrize(
    "options, fragment",
    [
        ({"method": "magic"}, "choose from shift"),
        ({"roles": ("output",)}, "choose from query"),
        ({"shift": float("nan")}, "not finite"),
        ({"pattern": "decoder"}, "no query, key or value projection found"),
        ({"placement": "per_head"}, "does not split"),
    ],
)
def test_refusals_change_nothing(options, fragment):
    from rmt.pytorch import condition, conditioned_weights

    model = build("vit")
    with pytest.raises(ValueError, match=fragment):
        condition(model, **options)
    assert not list(conditioned_weights(model))


def test_conditioning_twice_is_refused():
    from rmt.pytorch import condition

    model = build("vit")
    condition(model)
    with pytest.raises(ValueError, match="parametrised already"):
        condition(model)
