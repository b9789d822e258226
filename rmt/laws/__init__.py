"""Spectral laws: named laws, free convolution, Tracy-Widom, attention laws. Needs NumPy and SciPy only."""

from rmt.laws.law import SpectralLaw, hull

__all__ = ["SpectralLaw", "hull"]
