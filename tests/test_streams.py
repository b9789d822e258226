"""Streams: every part of an identity counts, and nothing else does."""

import itertools

import pytest

from rmt.streams import Stream, stream


def test_each_part_of_the_identity_changes_the_words():
    identities = itertools.product((0, 1, 2**63 - 1), ("", "a", "iid/n=4"), ("logits", "keys"), (0, 1, 2**32 - 1))
    words = {Stream(seed, key).words(name, draw) for seed, key, name, draw in identities}
    assert len(words) == 3 * 3 * 2 * 3


def test_parts_are_not_run_together():
    assert Stream(1, "1").words("x", 0)[:3] != Stream(11, "").words("x", 0)[:3]
    assert Stream(0, "ab").words("c", 0)[:3] != Stream(0, "a").words("bc", 0)[:3]


def test_words_are_32_bit_and_the_last_is_the_draw():
    words = stream(5, "k").words("logits", 7)
    assert words[3] == 7
    assert all(0 <= word < 2**32 for word in words)


def test_words_are_the_published_hash():
    """sha256("0\\0\\0logits"), computed with coreutils: printf '0\\0\\0logits' | sha256sum."""
    digest = bytes.fromhex("2aac784ba56b265acb96f8c50b00f817d1615efc5131931f2cc646146e1d924e")
    expected = tuple(int.from_bytes(digest[at : at + 4], "little") for at in (0, 4, 8))
    assert stream(0).words("logits")[:3] == expected


def test_within_appends_to_the_key():
    assert stream(3).within("iid/n=4").key == "iid/n=4"
    assert stream(3, "study").within("iid/n=4") == Stream(3, "study/iid/n=4")


@pytest.mark.parametrize("seed", [-1, 2**63, True])
def test_seed_out_of_range(seed):
    with pytest.raises(ValueError, match=r"seed .* is out of range; give an integer from 0 to 9223372036854775807"):
        stream(seed)


@pytest.mark.parametrize("seed", [0.5, "1", None])
def test_seed_of_the_wrong_kind(seed):
    with pytest.raises(TypeError, match=r"seed .* is no integer"):
        stream(seed)


@pytest.mark.parametrize("draw", [-1, 2**32])
def test_draw_out_of_range(draw):
    with pytest.raises(ValueError, match=r"draw .* is out of range"):
        stream(0).words("x", draw)
