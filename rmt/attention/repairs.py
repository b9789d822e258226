"""Every linear repair and control of an attention layer, by name, as a mixture.

A repair is said once, as a function of the circumstances of a layer; what it does to tokens, to gradients and to a
dense matrix follows (`rmt.attention.mixture`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from rmt.attention.mixture import Mixture

__all__ = ["CAUSAL_ONLY", "REPAIRS", "Circumstances", "mixture_of"]


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """What a repair may depend on.

    eta: how much of the outlier is kept. differential_lambda: weight of the second attention. branch: weight b of
    attention beside the identity. temperature divides the logits of shaped attention. growth: g of beta = g ln n.
    """

    n: int
    width: int
    beta: float
    head_dim: int = 64
    mask: str = "none"
    eta: float = 0.0
    differential_lambda: float = 0.2
    branch: float = 0.5
    temperature: float = 1.0
    growth: float = 0.5

    @property
    def sigma(self) -> float:
        """Deviation over mean of lognormal weights, sigma^2 = e^(beta^2) - 1; repairs with a gain divide by it."""
        if not self.beta > 0:
            raise ValueError("beta = 0: a repair with a gain divides by the deviation of the weights; give beta > 0")
        return math.sqrt(math.expm1(self.beta**2))


def _mean_removed(given: Circumstances, share: float = 1.0, **others: float) -> Mixture:
    """A minus a share of its mean: J, or C under a causal mask."""
    name = "running" if given.mask == "causal" else "uniform"
    return Mixture(**{name: share, **others})  # type: ignore[arg-type]


def _row_gain(given: Circumstances, gain: float = 1.0, **others: float) -> Mixture:
    """Rows of variance one: sqrt(i)/sigma for row i of causal attention."""
    return Mixture(output_gain="root", gain=gain / given.sigma, **others)  # type: ignore[arg-type]


REPAIRS: dict[str, Callable[[Circumstances], Mixture]] = {
    # A itself, and what it is compared with.
    "plain": lambda given: Mixture(),
    "identity": lambda given: Mixture(attention=0.0, identity=1.0),
    "uniform": lambda given: _mean_removed(given, -1.0, attention=0.0),
    # The outlier removed: Nait Saada et al. (nait-saada2024) and relatives.
    "outlier_removed": lambda given: Mixture(uniform=1.0),
    "outlier_scaled": lambda given: Mixture(uniform=1.0 - given.eta),
    "centred": lambda given: Mixture(centred=True),
    "centered_self_attention": lambda given: Mixture(uniform=1.0),  # Ali et al. 2023: every row sums to zero
    "rescaled": lambda given: Mixture(uniform=1.0, gain=math.sqrt(given.n) / given.sigma),
    "outliers_removed": lambda given: Mixture(projected="outliers"),
    # Other architectures that weaken it.
    "differential": lambda given: Mixture(second=given.differential_lambda),
    "shaped": lambda given: _mean_removed(given, identity=1.0, beta=given.beta / given.temperature),
    "value_skipinit": lambda given: Mixture(identity=1.0, attention=given.branch),
    "sigma_reparametrised": lambda given: Mixture(beta=(1 + math.sqrt(given.head_dim / given.width)) ** -2),
    "log_temperature": lambda given: Mixture(beta=given.growth * math.log(given.n)),
    # Causal: the repair that works inside a skip, and candidates that fail with depth.
    "running_mean_removed": lambda given: Mixture(running=1.0),
    "identity_plus_centred": lambda given: _mean_removed(given, identity=1.0),
    "late_removed": lambda given: Mixture(running=1.0, output_gain="late"),
    "ladder_removed": lambda given: Mixture(projected="ladder"),
    "row_gain": lambda given: _row_gain(given, running=1.0),
    "differential_gain": lambda given: _row_gain(given, gain=math.sqrt(0.5), second=1.0),
    "two_sided_gain": lambda given: Mixture(running=1.0, input_gain="root", gain=math.sqrt(2) / given.sigma),
}

CAUSAL_ONLY = frozenset(
    {
        "running_mean_removed",
        "late_removed",
        "ladder_removed",
        "row_gain",
        "differential_gain",
        "two_sided_gain",
    }
)


def mixture_of(name: str, given: Circumstances) -> Mixture:
    """The mixture of a repair. Raises ValueError for an unknown name, or one that needs a causal mask without it."""
    if name not in REPAIRS:
        raise ValueError(f"variant {name!r} is unknown: choose from {', '.join(REPAIRS)}")
    if name in CAUSAL_ONLY and given.mask != "causal":
        raise ValueError(f"variant {name} with mask {given.mask}: it removes running means; use mask causal")
    return REPAIRS[name](given)
