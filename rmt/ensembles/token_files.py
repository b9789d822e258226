"""Tokens from a file: any array of embeddings in place of drawn ones."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

import numpy as np

SUFFIX = ".npy"


def named(tokens: str) -> str:
    """FILE.npy -> FILE.npy#DIGEST, which changes with the content; a name that carries a digest has it checked.

    Raises ValueError, in one line, for a file that is missing, holds no finite numbers (tokens, width), or has changed.
    """
    path, _, digest = tokens.partition("#")
    found = digest_of(path)
    if digest and digest != found:
        raise ValueError(
            f"tokens {path}: its content has changed (digest {found}, not {digest}); name it without a digest"
        )
    tokens_from(path)
    return f"{path}#{found}"


def is_file(tokens: str) -> bool:
    """Whether a token geometry names a file."""
    return tokens.partition("#")[0].endswith(SUFFIX)


@lru_cache(maxsize=8)
def tokens_from(tokens: str) -> np.ndarray:
    """The array (tokens, width) of FILE.npy or FILE.npy#DIGEST. Raises ValueError, in one line, for anything else."""
    path = tokens.partition("#")[0]
    try:
        found = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as reason:
        raise ValueError(f"tokens {path}: cannot be read as a .npy array ({reason})") from None
    if found.ndim != 2 or found.size == 0 or found.dtype.kind not in "fiu" or not np.isfinite(found).all():
        raise ValueError(f"tokens {path}: holds {found.dtype} {found.shape}; needs finite numbers (tokens, width)")
    return found


def digest_of(path: str) -> str:
    """Twelve digits that change with the content of a file."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:12]
    except OSError as reason:
        raise ValueError(f"tokens {path}: cannot be read ({reason.strerror})") from None
