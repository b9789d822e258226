"""How a branch is wired into a layer: skip and norm, forwards and backwards, for attention and MLP alike.

"pre": X + s branch(norm(X)).   "post": norm(X + s branch(X)).   "branch": X + s norm(branch(X)).   Without a skip the
branch stands alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rmt.attention.norms import normed, normed_backward
from rmt.attention.split import SplitTokens

__all__ = ["Wiring", "wired", "wired_backward"]

Branch = Callable[[SplitTokens], SplitTokens]
BranchBackward = Callable[[SplitTokens, np.ndarray], tuple[dict[str, np.ndarray], np.ndarray]]


@dataclass(frozen=True)
class Wiring:
    """skip: s, or None for no skip. norm: "none", "pre", "post" or "branch"; norm_kind "rms" or "layer"."""

    skip: float | None = None
    norm: str = "none"
    norm_kind: str = "rms"


def wired(wiring: Wiring, X: SplitTokens, branch: Branch) -> SplitTokens:
    """The tokens behind a wired branch."""
    value = branch(normed(X, wiring.norm_kind) if wiring.norm == "pre" else X)
    if wiring.norm == "branch":
        value = normed(value, wiring.norm_kind)
    out = _joined(wiring, X, value)
    return normed(out, wiring.norm_kind) if wiring.norm == "post" else out


def wired_backward(
    wiring: Wiring, X: SplitTokens, G: np.ndarray, branch: Branch, backward: BranchBackward
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """(cotangent of X, gradients of the branch's weights), given the cotangent G of the output.

    backward(Z, cotangent of the branch) -> (gradients, cotangent of Z). The branch is evaluated again where a norm needs
    its value.
    """
    kind = wiring.norm_kind
    Z = normed(X, kind) if wiring.norm == "pre" else X
    if wiring.norm in ("post", "branch"):
        value = branch(Z)
        if wiring.norm == "post":
            G = normed_backward(_joined(wiring, X, value).dense(), G, kind)
    cotangent = G if wiring.skip is None else wiring.skip * G
    if wiring.norm == "branch":
        cotangent = normed_backward(value.dense(), cotangent, kind)
    gradients, dZ = backward(Z, cotangent)
    if wiring.norm == "pre":
        dZ = normed_backward(X.dense(), dZ, kind)
    return (dZ if wiring.skip is None else G + dZ), gradients


def _joined(wiring: Wiring, X: SplitTokens, value: SplitTokens) -> SplitTokens:
    return value if wiring.skip is None else X.plus(value.scaled(wiring.skip))
