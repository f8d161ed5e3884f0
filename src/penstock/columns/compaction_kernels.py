"""Compiled loops of compaction: the newest offset of each key, and the records of a batch that stay.

Owns: the work per record, and a hash table of 128-bit hashes of keys (open addressing, an offset of -1 is a free slot).
`key_table.py` does the work per batch and is the only caller.
Must never know: batch headers, compression, Python objects.

Invariant: a kernel reads nothing outside `payload` and writes nothing outside its arrays, whatever the bytes are. A
table always has free slots, so that each search ends.
"""

from __future__ import annotations

from typing import Any, Final

import numba
import numpy as np

from penstock.columns.kernel_compilation import BYTES_IN, FLAG, INT, INT64S_OUT, NOTHING, compiled, inlined, integers
from penstock.columns.kernel_varints import read_varint

DONE: Final = 0
FULL: Final = 1  # the table has too few free slots for the next record
BAD_RECORD: Final = 2

FIELDS: Final = 5  # of a record that stays: start, end, body, timestamp delta, position after the timestamp delta

_UINT64S_IN: Final = numba.types.Array(numba.types.uint64, 1, "C", readonly=True)
_UINT64S_OUT: Final = numba.types.Array(numba.types.uint64, 1, "C")

_C0: Final = np.uint64(0x736F6D6570736575)
_C1: Final = np.uint64(0x646F72616E646F6D)
_C2: Final = np.uint64(0x6C7967656E657261)
_C3: Final = np.uint64(0x7465646279746573)


@inlined
def _rotated(word: Any, bits: Any) -> Any:
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))


@inlined
def _round(v0: Any, v1: Any, v2: Any, v3: Any) -> Any:
    v0 = v0 + v1
    v1 = _rotated(v1, 13) ^ v0
    v0 = _rotated(v0, 32)
    v2 = v2 + v3
    v3 = _rotated(v3, 16) ^ v2
    v0 = v0 + v3
    v3 = _rotated(v3, 21) ^ v0
    v2 = v2 + v1
    v1 = _rotated(v1, 17) ^ v2
    v2 = _rotated(v2, 32)
    return v0, v1, v2, v3


@compiled(numba.types.uint64(BYTES_IN, INT, INT, numba.types.uint64, numba.types.uint64))
def siphash(content: Any, start: Any, length: Any, k0: Any, k1: Any) -> Any:
    """SipHash-1-3: a client that does not know its key cannot choose record keys that collide."""
    v0, v1, v2, v3 = k0 ^ _C0, k1 ^ _C1, k0 ^ _C2, k1 ^ _C3
    position = start
    whole_end = start + (length & ~7)
    while position < whole_end:
        word = np.uint64(0)
        for at in range(8):
            word |= np.uint64(content[position + at]) << np.uint64(8 * at)
        v3 ^= word
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 ^= word
        position += 8
    word = np.uint64(length & 0xFF) << np.uint64(56)
    for at in range(length & 7):
        word |= np.uint64(content[position + at]) << np.uint64(8 * at)
    v3 ^= word
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0 ^= word
    v2 ^= np.uint64(0xFF)
    for _ in range(3):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


@inlined
def _slot(high: Any, low: Any, highs: Any, lows: Any, offsets: Any) -> Any:
    """The slot of a key, or the free one where it belongs."""
    mask = np.uint64(offsets.size - 1)
    slot = np.int64(low & mask)
    while offsets[slot] >= 0 and (lows[slot] != low or highs[slot] != high):
        slot = np.int64(np.uint64(slot + 1) & mask)
    return slot


@compiled(integers(4)(BYTES_IN, INT, INT, INT, INT, _UINT64S_IN, _UINT64S_OUT, _UINT64S_OUT, INT64S_OUT, INT))
def put_records(
    payload: Any,
    position: Any,
    count: Any,
    base_offset: Any,
    used_max: Any,
    seeds: Any,
    highs: Any,
    lows: Any,
    offsets: Any,
    used: Any,
) -> Any:
    """Stores the offsets of up to `count` records; returns a status, the next position, records left, slots used."""
    end = payload.size
    left = count
    while left > 0:
        if used >= used_max:
            return FULL, position, left, used
        length, body = read_varint(payload, position, end)
        if body > end or length < 1 or length > end - body:
            return BAD_RECORD, position, left, used
        record_end = body + length
        _, at = read_varint(payload, body + 1, record_end)
        offset_delta, at = read_varint(payload, at, record_end)
        key_length, at = read_varint(payload, at, record_end)
        if at > record_end or key_length > record_end - at:
            return BAD_RECORD, position, left, used
        if key_length >= 0:
            high = siphash(payload, at, key_length, seeds[0], seeds[1])
            low = siphash(payload, at, key_length, seeds[2], seeds[3])
            slot = _slot(high, low, highs, lows, offsets)
            if offsets[slot] < 0:
                highs[slot] = high
                lows[slot] = low
                used += 1
            offsets[slot] = base_offset + offset_delta
        position = record_end
        left -= 1
    return DONE, position, left, used


@compiled(
    integers(3)(BYTES_IN, INT, INT, FLAG, _UINT64S_IN, _UINT64S_OUT, _UINT64S_OUT, INT64S_OUT, INT64S_OUT),
)
def select_records(
    payload: Any,
    count: Any,
    base_offset: Any,
    tombstones_stay: Any,
    seeds: Any,
    highs: Any,
    lows: Any,
    offsets: Any,
    kept: Any,
) -> Any:
    """Writes FIELDS of each record that stays to `kept`; returns a status, how many stay, and if one has no value."""
    end = payload.size
    position = 0
    kept_count = 0
    has_tombstones = 0
    for _ in range(count):
        length, body = read_varint(payload, position, end)
        if body > end or length < 1 or length > end - body:
            return BAD_RECORD, kept_count, has_tombstones
        record_end = body + length
        timestamp_delta, after_timestamp = read_varint(payload, body + 1, record_end)
        offset_delta, at = read_varint(payload, after_timestamp, record_end)
        key_length, at = read_varint(payload, at, record_end)
        if at > record_end or key_length > record_end - at:
            return BAD_RECORD, kept_count, has_tombstones
        value_length, value = read_varint(payload, at + max(key_length, 0), record_end)
        if value > record_end:
            return BAD_RECORD, kept_count, has_tombstones
        stays = key_length >= 0
        if stays:
            high = siphash(payload, at, key_length, seeds[0], seeds[1])
            low = siphash(payload, at, key_length, seeds[2], seeds[3])
            stays = base_offset + offset_delta >= offsets[_slot(high, low, highs, lows, offsets)]
            if stays and value_length < 0:
                stays = tombstones_stay
                if stays:
                    has_tombstones = 1
        if stays:
            if FIELDS * (kept_count + 1) > kept.size:
                return BAD_RECORD, kept_count, has_tombstones
            row = FIELDS * kept_count
            kept[row] = position
            kept[row + 1] = record_end
            kept[row + 2] = body
            kept[row + 3] = timestamp_delta
            kept[row + 4] = after_timestamp
            kept_count += 1
        position = record_end
    if position != end:
        return BAD_RECORD, kept_count, has_tombstones
    return DONE, kept_count, has_tombstones


@compiled(NOTHING(_UINT64S_OUT, _UINT64S_OUT, INT64S_OUT, _UINT64S_OUT, _UINT64S_OUT, INT64S_OUT))
def move_slots(highs: Any, lows: Any, offsets: Any, new_highs: Any, new_lows: Any, new_offsets: Any) -> None:
    """Copies all keys to a larger table."""
    for slot in range(offsets.size):
        if offsets[slot] >= 0:
            target = _slot(highs[slot], lows[slot], new_highs, new_lows, new_offsets)
            new_highs[target] = highs[slot]
            new_lows[target] = lows[slot]
            new_offsets[target] = offsets[slot]
