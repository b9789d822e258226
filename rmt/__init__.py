"""rmt: random-matrix theory of softmax attention, simulated, predicted and compared."""

from __future__ import annotations

from typing import Any

__all__ = ["__version__", "predict", "run"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # Both load when asked for. `run` is not offered as `rmt.experiments.run`, which is the module that holds it.
    if name == "run":
        from rmt.experiments.run import run

        return run
    if name == "predict":
        from rmt.oracle import predict

        return predict
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
