"""Settings that nobody chose: a function of the hash of a commit and a number, inside the ranges the theory states."""

from __future__ import annotations

import functools
import hashlib
import math
import subprocess
from pathlib import Path

from rmt.streams import Stream
from simulations.width_collapse import Setting

SIZES, LONG_SIZES, BETAS, WIDTHS = (200, 8000), (3500, 8000), (0.1, 1.0), (64, 512)
HEAD_DIMS = (16, 32, 64, 128)
LIGHT = ("exponential", "uniform", "gamma")


def drawn(commit: str, number: int) -> Setting:
    """Layer number 1, 2, ... of a commit: log-uniform n and d, uniform beta, d_k a power of two, and fair coins.

    mask: causal with chance 1/4. model: key-query with chance 2/3. tokens: one of those that the theory covers for the
    model and mask; orthonormal ones only up to n = 1024, where d = n. weights of the iid model: lognormal with chance
    2/3. variant: as it is or repaired. Shared tokens get d >= 2 d_k. One layer in ten is long, so that saturation is met:
    key-query, no mask, n from 3500, d_k = 16, independent tokens.
    """
    coins = _uniforms(commit, number)
    long = coins[11] < 0.1
    n = _log_uniform(LONG_SIZES if long else SIZES, coins[0])
    causal, keyquery = coins[1] < 0.25 and not long, coins[2] < 2 / 3 or long
    head_dim = HEAD_DIMS[0 if long else int(coins[3] * len(HEAD_DIMS))]
    beta = round(BETAS[0] + (BETAS[1] - BETAS[0]) * coins[4], 3)
    width = _log_uniform(WIDTHS, coins[5])
    kinds = ["independent"] + (["orthonormal"] if n <= 1024 else [])
    if keyquery and not causal and not long:
        kinds += ["gaussian", "layernorm"]
    tokens = kinds[int(coins[6] * len(kinds))]
    if tokens == "orthonormal":
        width = n
    elif tokens != "independent":
        width = max(width, 2 * head_dim)
    repair = "running_mean_removed" if causal else "outlier_removed"
    light = not keyquery and not causal and coins[8] < 1 / 3
    return Setting(
        n=n,
        model="keyquery" if keyquery else "iid",
        beta=None if light else beta,
        weights=LIGHT[int(3 * coins[9])] if light else None if keyquery else "lognormal",
        head_dim=head_dim if keyquery else None,
        mask="causal" if causal else "none",
        tokens=tokens,
        width=width,
        value_width=_log_uniform(WIDTHS, coins[10]),
        variant=repair if coins[7] < 0.5 else "plain",
    )


def own_stream(commit: str, stream: Stream) -> Stream:
    """A stream of the commit's own: its matrices are not those on which any band was calibrated."""
    seed = int.from_bytes(hashlib.sha256(commit.encode()).digest()[:7], "little")
    return Stream((seed + stream.seed) % 2**63, stream.key)


@functools.cache
def head() -> str:
    """The full hash of the commit that is checked out. Raises ValueError, in one line, where there is none."""
    folder = Path(__file__).resolve().parent
    try:
        found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        raise ValueError(f"--commit: {folder} is no git checkout; give the full hash of the commit to test") from None
    return found.stdout.strip()


def _uniforms(commit: str, number: int) -> list[float]:
    """Sixteen numbers in [0, 1), 32 bits each."""
    digest = hashlib.sha512(f"{commit}/{number}".encode()).digest()
    return [int.from_bytes(digest[at : at + 4], "little") / 2**32 for at in range(0, 64, 4)]


def _log_uniform(ends: tuple[int, int], coin: float) -> int:
    low, high = (math.log(end) for end in ends)
    return round(math.exp(low + (high - low) * coin))
