"""Spectral laws and their free calculus. Needs NumPy and SciPy only, and loads each law when it is first asked for.

    from rmt.laws import MarchenkoPastur, Semicircle, TracyWidom

A law has `support`, `atoms`, `density`, `cdf`, `quantile`, `stieltjes` and `moment` (`rmt.laws.law.SpectralLaw`).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rmt.laws.additive import free_sum
    from rmt.laws.averaged_heads import averaged_heads_law, independent_heads, typical_heads
    from rmt.laws.band import LocalAttention
    from rmt.laws.causal import CausalLaw
    from rmt.laws.circular import CircularLaw
    from rmt.laws.edelman import EdelmanConditionNumber
    from rmt.laws.edge_scaling import EdgeScaling, wigner_edge, wishart_edge
    from rmt.laws.empirical import EmpiricalLaw, point_mass
    from rmt.laws.fuss_catalan import FussCatalan
    from rmt.laws.head_outputs import HeadOutputs
    from rmt.laws.keyquery import KeyQueryLaw
    from rmt.laws.law import SpectralLaw, hull
    from rmt.laws.marchenko_pastur import MarchenkoPastur
    from rmt.laws.matrix_free import leading_values
    from rmt.laws.multiplicative import free_product
    from rmt.laws.normalised_heads import qk_norm_law
    from rmt.laws.normalised_tokens import normalised_covariance, sphere_dimension
    from rmt.laws.powers import compression, free_product_power, free_sum_power
    from rmt.laws.quarter_circle import QuarterCircle
    from rmt.laws.rectangular import rectangular_free_sum
    from rmt.laws.semicircle import Semicircle
    from rmt.laws.shared_tokens import SharedTokensLaw
    from rmt.laws.shifted_gaussian import ShiftedGaussian, shift_for
    from rmt.laws.single_entries import entry_value, large_entry
    from rmt.laws.spikes import (
        Outlier,
        SingularOutlier,
        additive_outliers,
        additive_thresholds,
        multiplicative_outliers,
        multiplicative_thresholds,
        singular_outlier,
        singular_threshold,
    )
    from rmt.laws.tabulated import TabulatedLaw
    from rmt.laws.token_scales import scales_of, typical_scales
    from rmt.laws.tracy_widom import TracyWidom
    from rmt.laws.transforms import r_transform, rectangular_r_transform, s_transform
    from rmt.laws.value_product import ValueProduct

__all__ = [
    "CausalLaw",
    "CircularLaw",
    "EdelmanConditionNumber",
    "EdgeScaling",
    "EmpiricalLaw",
    "FussCatalan",
    "HeadOutputs",
    "KeyQueryLaw",
    "LocalAttention",
    "MarchenkoPastur",
    "Outlier",
    "QuarterCircle",
    "Semicircle",
    "SharedTokensLaw",
    "ShiftedGaussian",
    "SingularOutlier",
    "SpectralLaw",
    "TabulatedLaw",
    "TracyWidom",
    "ValueProduct",
    "additive_outliers",
    "additive_thresholds",
    "averaged_heads_law",
    "compression",
    "entry_value",
    "free_product",
    "free_product_power",
    "free_sum",
    "free_sum_power",
    "hull",
    "independent_heads",
    "large_entry",
    "leading_values",
    "multiplicative_outliers",
    "multiplicative_thresholds",
    "normalised_covariance",
    "point_mass",
    "qk_norm_law",
    "r_transform",
    "rectangular_free_sum",
    "rectangular_r_transform",
    "s_transform",
    "scales_of",
    "shift_for",
    "singular_outlier",
    "singular_threshold",
    "sphere_dimension",
    "typical_heads",
    "typical_scales",
    "wigner_edge",
    "wishart_edge",
]

_HOME = {
    "CausalLaw": "causal",
    "CircularLaw": "circular",
    "EdelmanConditionNumber": "edelman",
    "EdgeScaling": "edge_scaling",
    "EmpiricalLaw": "empirical",
    "FussCatalan": "fuss_catalan",
    "HeadOutputs": "head_outputs",
    "KeyQueryLaw": "keyquery",
    "LocalAttention": "band",
    "MarchenkoPastur": "marchenko_pastur",
    "Outlier": "spikes",
    "QuarterCircle": "quarter_circle",
    "Semicircle": "semicircle",
    "SharedTokensLaw": "shared_tokens",
    "ShiftedGaussian": "shifted_gaussian",
    "SingularOutlier": "spikes",
    "SpectralLaw": "law",
    "TabulatedLaw": "tabulated",
    "TracyWidom": "tracy_widom",
    "ValueProduct": "value_product",
    "additive_outliers": "spikes",
    "additive_thresholds": "spikes",
    "averaged_heads_law": "averaged_heads",
    "compression": "powers",
    "entry_value": "single_entries",
    "free_product": "multiplicative",
    "free_product_power": "powers",
    "free_sum": "additive",
    "free_sum_power": "powers",
    "hull": "law",
    "independent_heads": "averaged_heads",
    "large_entry": "single_entries",
    "leading_values": "matrix_free",
    "multiplicative_outliers": "spikes",
    "multiplicative_thresholds": "spikes",
    "normalised_covariance": "normalised_tokens",
    "point_mass": "empirical",
    "qk_norm_law": "normalised_heads",
    "r_transform": "transforms",
    "rectangular_free_sum": "rectangular",
    "rectangular_r_transform": "transforms",
    "s_transform": "transforms",
    "scales_of": "token_scales",
    "shift_for": "shifted_gaussian",
    "singular_outlier": "spikes",
    "singular_threshold": "spikes",
    "sphere_dimension": "normalised_tokens",
    "typical_heads": "averaged_heads",
    "typical_scales": "token_scales",
    "wigner_edge": "edge_scaling",
    "wishart_edge": "edge_scaling",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f"rmt.laws.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
