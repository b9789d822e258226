"""Philox4x32-10 against the known answers published with Random123 (kat_vectors)."""

import numpy as np
import pytest

from rmt.kernels import cpu, reference

KNOWN_ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


def words(text):
    return np.array([int(word, 16) for word in text.split()], dtype=np.uint32)


@pytest.mark.parametrize("kernels", [cpu, reference])
@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_known_answers(kernels, counter, key, answer):
    result = kernels.philox(np.repeat(words(counter)[:, None], 3, axis=1), words(key))
    np.testing.assert_array_equal(result, np.repeat(words(answer)[:, None], 3, axis=1))


def test_kernels_agree_on_many_counters():
    counters = np.random.default_rng(0).integers(0, 2**32, (4, 1000), dtype=np.uint32)
    key = words("00000001 fffffffe")
    np.testing.assert_array_equal(cpu.philox(counters, key), reference.philox(counters, key))
