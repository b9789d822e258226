"""What conditioning says of a model in training: its first attention layer, on the first tokens of one sequence."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from rmt.attention.jacobian import Attention, AttentionJacobian
from rmt.attention.jacobian_draws import Projections
from rmt.attention.jacobian_spectrum import jacobian_spectrum, needed_normals
from rmt.observables.conditioning import condition_number, diagonal_attention, smallest_singular_value
from simulations.training.model import Transformer

__all__ = ["PROBED", "probe"]

SINGULAR = 1e15  # a larger condition number is rounding
WINDOW = 16  # tokens: at most the channels of a head, so that sigma_min(J) = sigma_min(P X) can hold
PROBED = (
    "query_condition",
    "query_smallest",
    "value_condition",
    "mixed_token_condition",
    "jacobian_condition_number",
    "diagonal_attention",
    "query_share",
    "second_over_edge",
)


def probe(model: Transformer, inputs: Tensor, start: np.ndarray) -> dict[str, float]:
    """Every quantity of `PROBED`, NaN where it has no meaning for this attention, or is infinite.

    query_condition, query_smallest, value_condition: of the weights that act, W + C. jacobian_condition_number is that of
    plain attention at these weights and tokens. second_over_edge: the second singular value of P over 2 sigma/sqrt(n), with
    sigma^2 the measured relative variance of its entries: the edge of independent entries.
    """
    seen: list[Tensor] = []
    with torch.no_grad():
        model(inputs[:1], watch=lambda number, x: seen.append(x) if number == 0 else None)
        layer = model.blocks[0].attention
        weights = Projections(*(w.weight.double().T.numpy().copy() for w in (layer.query, layer.key, layer.value)))
    arch = model.arch
    X = seen[0][0, :WINDOW].double().numpy()
    mask = "causal" if arch.causal and arch.attention == "softmax" else "none"
    kind = Attention(arch.attention, arch.heads, mask=mask, window=arch.window, landmarks=min(arch.landmarks, len(X)))
    jacobian = AttentionJacobian(X, weights, kind)
    found = dict.fromkeys(PROBED, math.nan)
    found |= {
        "query_condition": float(condition_number(weights.query)),
        "query_smallest": float(smallest_singular_value(weights.query)),
        "value_condition": float(condition_number(weights.value)),
    }
    if np.isfinite(X).all():
        spectrum = jacobian_spectrum(jacobian, start=np.resize(start, needed_normals(jacobian)))
        found["jacobian_condition_number"] = spectrum.condition
        found["query_share"] = spectrum.block_norms["query"] / spectrum.block_norms["value"]
        if arch.attention in ("softmax", "window"):
            found |= _mixing(jacobian)
    return {name: value if abs(value) < SINGULAR else math.nan for name, value in found.items()}


def _mixing(jacobian: AttentionJacobian) -> dict[str, float]:
    matrices = [head.attention for head in jacobian.heads if head.attention is not None]
    n = matrices[0].shape[0]
    ratios = []
    for P in matrices:
        variance = max(float(np.mean(n * np.sum(P * P, axis=1) - 1)), 1e-12)
        ratios.append(np.linalg.svd(P, compute_uv=False)[1] / (2 * math.sqrt(variance / n)))
    return {
        "mixed_token_condition": max(float(condition_number(P @ jacobian.tokens)) for P in matrices),
        "diagonal_attention": float(np.mean([diagonal_attention(P) for P in matrices])),
        "second_over_edge": float(np.mean(ratios)),
    }
