"""Floors: how far approximations are from what they approximate, and whether their bands are as wide as that.

`python -m simulations.floors [EXPERIMENT ...]`: settings inside the stated ranges of seven experiments, with draws enough
that the standard error of a statistic is well below its band. The floor of an approximation is |statistic - predicted|
without sampling error; the band holds it, and a band that is ten times every floor is marked: it says less than is known.
jacobian_conditioning states bounds and identities and gradient_norms exact moments: they have no approximation.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from simulations.floors.floor import Floor, floors, table, widths

PLANS: tuple[tuple[str, int, dict[str, Any]], ...] = (
    ("width_collapse", 48, {"n": (256, 600), "beta": (0.4, 0.8), "model": ("iid", "keyquery")}),
    ("width_collapse", 24, {"n": 1024, "beta": 0.83, "model": "keyquery", "head_dim": (32, 128)}),
    ("width_collapse", 48, {"n": 400, "model": "iid", "weights": ("exponential", "uniform", "gamma")}),
    ("width_collapse", 48, {"n": 300, "beta": 0.6, "mask": "causal", "variant": ("plain", "running_mean_removed")}),
    (
        "width_collapse",
        48,
        {"n": 400, "beta": 0.7, "model": "keyquery", "tokens": ("gaussian", "layernorm"), "width": 256},
    ),
    ("width_collapse", 48, {"n": 400, "beta": 0.5, "model": "keyquery", "norm": "qk"}),
    ("width_collapse", 48, {"n": 400, "beta": 0.8, "cap": 2.0, "variant": "plain"}),
    ("width_collapse", 48, {"n": 400, "beta": 0.8, "sink": 3.0, "variant": "plain"}),
    ("width_collapse", 48, {"n": 400, "beta": 0.8, "attention": ("sigmoid", "relu", "tanh"), "variant": "plain"}),
    ("width_collapse", 48, {"n": 400, "beta": 0.5, "mask": "window", "window": 64, "variant": "plain"}),
    ("bulk_law", 16, {"n": (300, 600), "beta": (0.5, 0.83), "model": ("iid", "keyquery")}),
    ("edge_fluctuations", 16, {"n": (96, 160), "weights": ("uniform", "gamma", "exponential", "lognormal")}),
    ("depth_collapse", 64, {"n": (128, 256), "depth": 4, "variant": ("plain", "outlier_removed")}),
    (
        "depth_collapse",
        64,
        {"n": 160, "depth": 6, "skip_scale": "1", "norm": ("none", "pre", "post"), "variant": "plain"},
    ),
    (
        "weight_conditioning",
        64,
        {"width": 256, "head_dim": (64, 256), "shift": (0.0, 1.0, 5.0), "correction": ("shift", "svd")},
    ),
    ("weight_conditioning", 64, {"width": 256, "head_dim": 64, "shift": (0.0, 0.5, 0.74), "n": (48, 96, 1024)}),
    ("residual_conditioning", 48, {"n": (64, 200), "width": 256, "skip_scale": (0.0, 0.5, 2.0), "head_dim": (16, 64)}),
    (
        "softmax_regression",
        4,
        {"optimizer": ("preconditioned", "gd"), "n": 250, "condition": (2.2, 10.0, 100.0), "width": (2, 6)},
    ),
    (
        "softmax_regression",
        4,
        {"optimizer": "preconditioned", "n": 250, "target_condition": (1.15, 10.0), "rho": (0.25, 1.0)},
    ),
)


def main(arguments: list[str] | None = None) -> int:
    """Print the table of the named experiments, of all seven by default; exit 1 if a floor is outside its band."""
    parser = argparse.ArgumentParser(prog="python -m simulations.floors", description=(__doc__ or "").split("\n")[0])
    known = list(dict.fromkeys(name for name, _, _ in PLANS))
    parser.add_argument("experiments", nargs="*", metavar="EXPERIMENT", help=f"of {', '.join(known)}")
    parser.add_argument("--seed", type=int, default=0, help="of the draws (0)")
    parser.add_argument("--out", default=None, help="a store to use and keep")
    asked = parser.parse_args(arguments)
    for name in asked.experiments:
        if name not in known:
            parser.error(f"{name}: must be one of {', '.join(known)}")
    found: list[Floor] = []
    for name, draws, values in PLANS:
        if not asked.experiments or name in asked.experiments:
            found += floors(name, draws, values, seed=asked.seed, out=asked.out)
    print(table(widths(found)))
    for one in found:
        if one.outside:
            print(
                f"outside: {one.experiment}, {one.quantity}, {one.setting}: "
                f"{one.floor:.3g} +- {one.stderr:.2g}, band {one.half:.3g}"
            )
    return int(any(one.outside for one in found))


if __name__ == "__main__":
    sys.exit(main())
