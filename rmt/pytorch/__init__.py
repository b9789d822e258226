"""Drop-ins for PyTorch (extra `torch`): spectral conditioning of any module's projections, and attention without its outlier.

from rmt.pytorch import condition, bake, scaled_dot_product_attention

condition(model, shift=0.5)          # every query, key and value projection; trains, saves and loads as before
bake(model)                          # plain weights W + C again, for inference or export

scaled_dot_product_attention(q, k, v, is_causal=True)     # A V - mean(V), no n x n matrix
"""

from rmt.pytorch.attention import OutlierRemovedAttention, scaled_dot_product_attention
from rmt.pytorch.conditioning import Conditioned, bake, condition, conditioned_weights, uncondition
from rmt.pytorch.projections import Projection, projections

__all__ = [
    "Conditioned",
    "OutlierRemovedAttention",
    "Projection",
    "bake",
    "condition",
    "conditioned_weights",
    "projections",
    "scaled_dot_product_attention",
    "uncondition",
]
