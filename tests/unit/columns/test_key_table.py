"""The compiled table of keys against the plain one, and against bytes that are no records."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.columns.compaction_kernels import siphash
from penstock.columns.key_table import SEED_BYTES, KeyTable
from penstock.core.errors import ProtocolError
from penstock.log.cleaning.key_offsets import KeyOffsets
from penstock.protocol.record_filtering import keyed_records
from tests.record_batches import Record, encode_records

SEED = bytes(range(SEED_BYTES))

keys = (
    st.none() | st.sampled_from([b"", b"a", b"b", b"k" * 15, b"k" * 16, b"k" * 17, b"k" * 300]) | st.binary(max_size=9)
)
batches = st.lists(st.lists(st.tuples(keys, st.booleans()), min_size=1, max_size=20), min_size=1, max_size=8)


def payload_of(records: list[tuple[bytes | None, bool]]) -> bytes:
    return encode_records(
        [Record(b"value" if has_value else None, key, 5 - at) for at, (key, has_value) in enumerate(records)], 0
    )


@settings(max_examples=200, deadline=None)
@given(chosen=batches, tombstones_stay=st.booleans())
def test_it_keeps_what_plain_python_keeps(chosen: list[list[tuple[bytes | None, bool]]], tombstones_stay: bool) -> None:
    plain, table = KeyOffsets(1000), KeyTable(1000, SEED, slots=4)
    base_offset = 0
    for number, records in enumerate(chosen):
        if number % 3 != 2:  # of the others, some keys are unknown
            plain.add_records(payload_of(records), len(records), base_offset)
            table.add_records(payload_of(records), len(records), base_offset)
        base_offset += len(records)
    base_offset = 0
    for records in chosen:
        payload = payload_of(records)
        expected = plain.kept_records(payload, len(records), base_offset, tombstones_stay=tombstones_stay)
        found = table.kept_records(payload, len(records), base_offset, tombstones_stay=tombstones_stay)
        assert (found.count, found.has_tombstones) == (expected.count, expected.has_tombstones)
        assert list(found.records()) == list(expected.records())
        base_offset += len(records)


def test_it_grows_and_is_full_at_its_capacity() -> None:
    table = KeyTable(3000, SEED, slots=4)
    records: list[tuple[bytes | None, bool]] = [(b"key %d" % number, True) for number in range(3000)]
    payload = payload_of(records)
    fullness = []
    for count, base_offset in ((2999, 0), (3000, 3000)):
        table.add_records(payload_of(records[:count]), count, base_offset)
        fullness.append(table.is_full)
    assert fullness == [False, True]
    assert table.kept_records(payload, 3000, 0, tombstones_stay=True).count == 0
    assert table.kept_records(payload, 3000, 3000, tombstones_stay=True).count == 3000


@settings(max_examples=300, deadline=None)
@given(content=st.binary(max_size=60), count=st.integers(-1, 9), data=st.data())
def test_bytes_that_are_no_records_are_refused_as_by_plain_python(
    content: bytes, count: int, data: st.DataObject
) -> None:
    if data.draw(st.booleans()):
        whole = payload_of([(b"key", True)] * 3)
        at = data.draw(st.integers(0, len(whole) - 1))
        content, count = whole[:at] + content[:1] + whole[at + 1 :], 3
    table = KeyTable(1000, SEED, slots=4)
    try:
        list(keyed_records(content, count))
        is_valid = count * 7 <= len(content) and count >= 0
    except ProtocolError:
        is_valid = False
    try:
        table.kept_records(content, count, 0, tombstones_stay=True)
        was_accepted = True
    except ProtocolError:
        was_accepted = False
    assert was_accepted is is_valid
    try:
        table.add_records(content, count, 0)
    except ProtocolError:
        assert not was_accepted or not is_valid


@pytest.mark.parametrize("length", range(20))
def test_the_hash_is_siphash_1_3(length: int) -> None:
    content = bytes(range(3, 3 + length))
    array = np.frombuffer(b"xx" + content + b"yy", np.uint8)
    k0, k1 = struct.unpack("<QQ", SEED[:16])
    assert int(siphash(array, 2, length, np.uint64(k0), np.uint64(k1))) == reference(content, k0, k1)


def reference(content: bytes, k0: int, k1: int) -> int:
    """The hash as its authors describe it."""
    mask = (1 << 64) - 1
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def rotate(word: int, bits: int) -> int:
        return (word << bits | word >> (64 - bits)) & mask

    def sip_round() -> None:
        v[0] = (v[0] + v[1]) & mask
        v[1] = rotate(v[1], 13) ^ v[0]
        v[0] = rotate(v[0], 32)
        v[2] = (v[2] + v[3]) & mask
        v[3] = rotate(v[3], 16) ^ v[2]
        v[0] = (v[0] + v[3]) & mask
        v[3] = rotate(v[3], 21) ^ v[0]
        v[2] = (v[2] + v[1]) & mask
        v[1] = rotate(v[1], 17) ^ v[2]
        v[2] = rotate(v[2], 32)

    padded = content + bytes(7 - len(content) % 8) + bytes([len(content) & 0xFF])
    for (word,) in struct.iter_unpack("<Q", padded):
        v[3] ^= word
        sip_round()
        v[0] ^= word
    v[2] ^= 0xFF
    for _ in range(3):
        sip_round()
    return v[0] ^ v[1] ^ v[2] ^ v[3]
