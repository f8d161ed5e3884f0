"""Finds where a log resumes after a bad batch.

Owns: the search for the next good batch, and the confirmation of its offsets. They are outside the CRC, and the batch
before it, which would confirm them, is the bad one. So they need other evidence: the rest of the bad header, the batch
that follows, or the end of the segment.
Must never know: what the result is used for; it changes nothing.

Invariant: a batch that is returned as `confirmed` is complete, its CRC matches, and other data in the log confirms its
offsets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from penstock.log.batches import (
    MAX_OFFSET,
    MIN_BATCH_LENGTH,
    WALKED_FIELDS,
    crc_in_file,
    header_flaw,
)
from penstock.log.filesystem import File
from penstock.protocol.record_batch import HEADER_BYTES, LOG_OVERHEAD, MAGIC_AT, MAGIC_V2, BatchHeader, parse_header

_MAGIC_BYTE: Final = bytes([MAGIC_V2])
_SEARCH_WINDOW_BYTES: Final = 1 << 20


class Stretch(NamedTuple):
    """The part of a file that contains batches, and the limits of their offsets."""

    file: File
    limit: int
    upper_offset: int  # batches end at or before it; MAX_OFFSET if it is unknown
    contiguous: bool


class Resumption(NamedTuple):
    position: int
    header: BatchHeader
    confirmed: bool


def find_resumption(stretch: Stretch, position: int, expected_offset: int, *, may_be_torn: bool) -> Resumption | None:
    """The first good batch after the bad one at `position`, where a batch with `expected_offset` should begin.

    Returns an unconfirmed batch only if there is no confirmed one. `may_be_torn` means that a crash may have
    interrupted the write of the bad batch.
    """
    bad = _header_at(stretch, position)
    if (
        bad is not None
        and bad.base_offset == expected_offset
        and header_flaw(bad, MAX_OFFSET, stretch.contiguous) is None
    ):
        if position + bad.size >= stretch.limit and may_be_torn:
            return _after_damaged_length(stretch, position, bad)
        first_try = position + bad.size
    else:
        first_try = position + 1
    unconfirmed = None
    for at in _candidates(stretch, position, first_try, expected_offset):
        header = _good_batch_at(stretch, at, expected_offset)
        if header is None:
            continue
        if _is_confirmed(stretch, at, header, bad, expected_offset):
            return Resumption(at, header, True)
        unconfirmed = unconfirmed or Resumption(at, header, False)
    return unconfirmed


def _after_damaged_length(stretch: Stretch, position: int, bad: BatchHeader) -> Resumption | None:
    """The header of the bad batch is complete and its end is missing: a torn write, or a damaged length.

    After a torn write only its own records follow, and one of them may contain a batch, accidentally (a backup of this
    topic) or maliciously. So a successor counts only if the CRC proves that the bad batch is complete up to it.
    """
    for at in _candidates(stretch, position, position + 1, bad.end_offset - 1):
        header = _good_batch_at(stretch, at, bad.end_offset - 1)
        if header is not None and header.base_offset == bad.end_offset:
            as_it_was = bad._replace(batch_length=at - position - LOG_OVERHEAD)
            if crc_in_file(stretch.file, position, as_it_was):
                return Resumption(at, header, True)
    return None


def _candidates(stretch: Stretch, position: int, first_try: int, after_offset: int) -> Iterator[int]:
    """Positions after `position` at which a header with a valid offset and length may begin; `first_try` first."""
    if position + 1 < first_try < stretch.limit:
        yield first_try
    at = position + 1
    while stretch.limit - at >= HEADER_BYTES:
        window = stretch.file.pread(min(_SEARCH_WINDOW_BYTES, stretch.limit - at), at)
        last = len(window) - HEADER_BYTES
        if last < 0:
            return
        magic_at = window.find(_MAGIC_BYTE, MAGIC_AT)
        while 0 <= magic_at <= last + MAGIC_AT:
            start = magic_at - MAGIC_AT
            base_offset, length, _, _ = WALKED_FIELDS.unpack_from(window, start)
            room = stretch.limit - at - start - LOG_OVERHEAD
            if after_offset < base_offset < stretch.upper_offset and MIN_BATCH_LENGTH <= length <= room:
                yield at + start
            magic_at = window.find(_MAGIC_BYTE, magic_at + 1)
        at += last + 1


def _is_confirmed(
    stretch: Stretch, position: int, header: BatchHeader, bad: BatchHeader | None, expected_offset: int
) -> bool:
    if bad is not None:
        # A single damaged bit leaves either the last offset delta or the count of the bad batch intact.
        ends = (expected_offset + bad.last_offset_delta + 1, expected_offset + bad.records_count)
        if header.base_offset in ends or (not stretch.contiguous and expected_offset < min(ends) <= header.base_offset):
            return True
    end = position + header.size
    if end == stretch.limit:
        return header.end_offset == stretch.upper_offset
    successor = _good_batch_at(stretch, end, header.end_offset - 1)
    return successor is not None and (successor.base_offset == header.end_offset or not stretch.contiguous)


def _header_at(stretch: Stretch, position: int) -> BatchHeader | None:
    if stretch.limit - position < HEADER_BYTES:
        return None
    window = stretch.file.pread(HEADER_BYTES, position)
    return parse_header(window) if len(window) == HEADER_BYTES else None


def _good_batch_at(stretch: Stretch, position: int, after_offset: int) -> BatchHeader | None:
    header = _header_at(stretch, position)
    if header is None or header_flaw(header, stretch.limit - position, stretch.contiguous) is not None:
        return None
    if not (after_offset < header.base_offset and header.end_offset <= stretch.upper_offset):
        return None
    return header if crc_in_file(stretch.file, position, header) else None
