"""Spectral laws and their free calculus. Needs NumPy and SciPy only, and loads each law when it is first asked for.

    from rmt.laws import MarchenkoPastur, Semicircle, TracyWidom

A law has `support`, `atoms`, `density`, `cdf`, `quantile`, `stieltjes` and `moment` (`rmt.laws.law.SpectralLaw`).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rmt.laws.causal import CausalLaw
    from rmt.laws.circular import CircularLaw
    from rmt.laws.edelman import EdelmanConditionNumber
    from rmt.laws.edge_scaling import EdgeScaling, wigner_edge, wishart_edge
    from rmt.laws.empirical import EmpiricalLaw, point_mass
    from rmt.laws.fuss_catalan import FussCatalan
    from rmt.laws.keyquery import KeyQueryLaw
    from rmt.laws.law import SpectralLaw, hull
    from rmt.laws.marchenko_pastur import MarchenkoPastur
    from rmt.laws.quarter_circle import QuarterCircle
    from rmt.laws.semicircle import Semicircle
    from rmt.laws.shifted_gaussian import ShiftedGaussian, shift_for
    from rmt.laws.tracy_widom import TracyWidom

__all__ = [
    "CausalLaw",
    "CircularLaw",
    "EdelmanConditionNumber",
    "EdgeScaling",
    "EmpiricalLaw",
    "FussCatalan",
    "KeyQueryLaw",
    "MarchenkoPastur",
    "QuarterCircle",
    "Semicircle",
    "ShiftedGaussian",
    "SpectralLaw",
    "TracyWidom",
    "hull",
    "point_mass",
    "shift_for",
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
    "KeyQueryLaw": "keyquery",
    "MarchenkoPastur": "marchenko_pastur",
    "QuarterCircle": "quarter_circle",
    "Semicircle": "semicircle",
    "ShiftedGaussian": "shifted_gaussian",
    "SpectralLaw": "law",
    "TracyWidom": "tracy_widom",
    "hull": "law",
    "point_mass": "empirical",
    "shift_for": "shifted_gaussian",
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
