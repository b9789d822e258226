"""Counter-based random streams: a number is a function of its name, never of the order in which it was asked for."""

from __future__ import annotations

import hashlib
import operator
from dataclasses import dataclass

Words = tuple[int, int, int, int]


@dataclass(frozen=True)
class Stream:
    """The source of every random number of one study.

    A Philox4x32-10 block has a key of two words and a counter of four. `words` fixes the key and the two upper counter
    words; the two lower ones are the address of an entry (block of columns, row). So an entry depends on (seed, key,
    array name, draw, row, column) and on nothing else: not on the array's size, on tiles, threads or the device.
    """

    seed: int
    key: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", _integer("seed", self.seed, 2**63))

    def within(self, key: str) -> Stream:
        """The stream of what `key` names, seen from this one."""
        return Stream(self.seed, f"{self.key}/{key}" if self.key else key)

    def words(self, name: str, draw: int = 0) -> Words:
        """(key0, key1, counter2, counter3) of the array `name` in draw `draw` (below 2^32).

        96 bits of sha256 over seed, stream key and array name, and the draw: two arrays share their numbers only if all
        four agree, up to a hash collision (probability 1e-17 among a million arrays).
        """
        text = f"{self.seed}\0{self.key}\0{name}".encode()
        digest = hashlib.sha256(text).digest()
        key0, key1, counter2 = (int.from_bytes(digest[at : at + 4], "little") for at in (0, 4, 8))
        return key0, key1, counter2, _integer("draw", draw, 2**32)


def stream(seed: int = 0, key: str = "") -> Stream:
    """The stream of a seed: any integer from 0 up to 2^63 - 1."""
    return Stream(seed, key)


def _integer(what: str, value: int, end: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} {value!r} is no integer; give one from 0 to {end - 1}") from None
    if isinstance(value, bool) or not 0 <= number < end:
        raise ValueError(f"{what} {value!r} is out of range; give an integer from 0 to {end - 1}")
    return number
