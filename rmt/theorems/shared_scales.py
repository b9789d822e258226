"""How queries and keys of shared tokens compare them: canonical scales and types, as they are, turned or normalised."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from rmt.laws.rotary_scales import coherent_share, rotary_scales, rotary_types
from rmt.laws.token_scales import Scales, typical_scales


@dataclass(frozen=True, eq=False)
class Comparison:
    """Scales of typical weights, and what goes with them.

    spread: d_e, the logit variances of rows have the law chi^2_(d_e)/d_e, those of columns too. coherent: the share of the
    degree-one energy of A that values of the same tokens see coherently.
    """

    scales: Scales
    spread: float
    coherent: float = 1.0


@functools.lru_cache(maxsize=64)
def comparison(
    n: int,
    width: int,
    head_dim: int,
    *,
    tokens: str,
    weight_init: str = "gaussian",
    position: str = "none",
    norm: str = "none",
) -> Comparison:
    """Of n "gaussian" or "layernorm" tokens; weights with iid entries, or "orthogonal" columns.

    Orthogonal weights have canonical scales all one: RoPE changes nothing, and norm "qk" has a law of its own
    (`rmt.laws.normalised_heads`). position "rope" averages the Gram matrices of the weights (`rmt.laws.rotary_scales`), and of
    the mean key only slow pairs are left. norm "qk" puts queries and keys on a sphere of d_k dimensions: rows differ by the
    anisotropy of the keys alone, q^T C_K q/d_k has the variance (E tau^4 - 1)/d_k, half of what the sphere of the tokens would
    give; and as a strong direction makes its own queries long, the norm takes 4/d_k of the ratio d_k/width of the Wishart
    matrices (first order in both, derived). Both at once: queries are normalised, then turned.
    Raises ValueError for norm "qk" with orthogonal weights, or of heads narrower than 5.
    """
    rope, qk = position == "rope", norm == "qk"
    if qk and weight_init == "orthogonal":
        raise ValueError("norm qk with orthogonal weights: isotropic, see rmt.laws.normalised_heads")
    if qk and head_dim < 5:
        raise ValueError(f"norm qk with head_dim {head_dim}: an expansion in 4/head_dim; needs head_dim >= 5")
    sphere = float(head_dim) if qk else width - 1.0 if tokens == "layernorm" else None
    coherent = coherent_share(n, head_dim) if rope else 1.0
    if weight_init == "orthogonal":
        scales = Scales(np.ones(head_dim), 1.0, sphere)
        return Comparison(scales, scales.effective_dimension, coherent)
    wide = width / (1 - 4 / head_dim) if qk else width
    if rope:
        scales = rotary_scales(n, wide, head_dim, sphere=sphere)
    else:
        scales = typical_scales(wide, head_dim, sphere=sphere)
    if qk:
        return Comparison(scales, 2 * scales.effective_dimension, coherent)
    return Comparison(scales, rotary_types(scales, width) if rope else scales.effective_dimension, coherent)
