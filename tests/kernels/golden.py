"""sha256 of drawn numbers; also run as a script, under other CPU targets."""

from __future__ import annotations

import hashlib

import numpy as np

from rmt.kernels import cpu
from rmt.kernels.rows import LAWS

WORDS = (0x243F6A88, 0x85A308D3, 0x13198A2E, 3)
ROWS, COLUMNS = 70, 203
CASES = ((1.0, np.float32), (20.0, np.float32), (1.0, np.float64))


def hashes(tile: int = ROWS) -> dict[str, str]:
    """One hash per weight law, over variates and rows of A, made `tile` rows at a time."""
    found = {}
    for law in LAWS:
        digest = hashlib.sha256()
        cuts = [(at, min(at + tile, ROWS)) for at in range(0, ROWS, tile)]
        _update(digest, np.concatenate([cpu.variates(WORDS, *cut, COLUMNS, law=law) for cut in cuts]))
        for beta, dtype in CASES:
            rows = np.empty((ROWS, COLUMNS), dtype)
            for start, stop in cuts:
                cpu.markov_rows(WORDS, start, rows[start:stop], beta=beta, law=law)
            _update(digest, rows)
        found[law] = digest.hexdigest()
    return found


def _update(digest: hashlib._Hash, x: np.ndarray) -> None:
    digest.update(x.astype(x.dtype.newbyteorder("<")).tobytes())


if __name__ == "__main__":
    for law, value in hashes().items():
        print(law, value)
