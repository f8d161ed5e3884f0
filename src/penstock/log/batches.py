"""Iterates over the batches of a log file, with or without verifying them.

Owns: the checks of a stored batch, on its own and as the successor of the previous one; reading in windows, which
bounds time and memory even if a length is damaged.
Must never know: segments, indexes, how a bad batch is handled (`resumption.py` finds the next good one).

Invariant: `checked_batches` yields only complete batches with a valid CRC32C and consecutive offsets.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final

from crc32c import crc32c

from penstock.log.filesystem import File
from penstock.protocol.record_batch import CRC_START, HEADER_BYTES, LOG_OVERHEAD, MAGIC_V2, BatchHeader, parse_header

MIN_BATCH_LENGTH: Final = HEADER_BYTES - LOG_OVERHEAD  # the length field of an empty batch
MAX_OFFSET: Final = (1 << 63) - 1

_CHECK_WINDOW_BYTES: Final = 256 << 10
_WALK_WINDOW_BYTES: Final = 4096
_WALK_WINDOW_BYTES_MAX: Final = 64 << 10

WALKED_FIELDS: Final = Struct(">qi4xb6xi")  # base offset, length, magic, last offset delta
_unpack_walked_fields = WALKED_FIELDS.unpack_from


class BatchAnomaly(Exception):
    """The bytes at `position` are not the expected batch, or an index contradicts the log."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(reason)
        self.position = position
        self.reason = reason


def header_flaw(header: BatchHeader, room: int, contiguous: bool) -> str | None:
    """Why a header is invalid on its own, with `room` bytes left for its batch; None if it is valid."""
    if header.magic != MAGIC_V2:
        return f"the magic byte is {header.magic}, not {MAGIC_V2}"
    if header.batch_length < MIN_BATCH_LENGTH:
        return f"the batch length is {header.batch_length}"
    if header.size > room:
        return f"the batch length is {header.size} bytes, but {room} are left"
    delta = header.last_offset_delta
    count = header.records_count
    if delta < 0 or not (count == delta + 1 if contiguous else 0 <= count <= delta + 1):
        return f"{count} records do not match a last offset delta of {delta}"
    if not 0 <= header.base_offset <= MAX_OFFSET - delta - 1:
        return f"the base offset is {header.base_offset}"
    return None


def chain_flaw(header: BatchHeader, expected_offset: int, contiguous: bool) -> str | None:
    """Why a header is invalid as the successor of a batch that ended before `expected_offset`; None if it is valid."""
    base_offset = header.base_offset
    if base_offset == expected_offset or (base_offset > expected_offset and not contiguous):
        return None
    return f"the base offset is {base_offset} instead of {expected_offset}"


def crc_in_file(file: File, position: int, header: BatchHeader) -> bool:
    """Whether the CRC of the batch at `position` matches its header; reads in windows, whatever its length is."""
    crc = 0
    at = position + CRC_START
    end = position + header.size
    while at < end:
        window = file.pread(min(_CHECK_WINDOW_BYTES, end - at), at)
        if not window:
            return False
        crc = crc32c(window, crc)
        at += len(window)
    return bool(crc == header.crc)


def checked_batches(
    file: File, position: int, limit: int, expected_offset: int | None, contiguous: bool
) -> Iterator[tuple[int, BatchHeader]]:
    """Yields position and header of every batch in [position, limit), verified; raises BatchAnomaly at a bad one.

    `expected_offset` is the base offset of the first batch; None if the caller checks it.
    """
    walk = _walk(file, position, limit, expected_offset, contiguous, _CHECK_WINDOW_BYTES, _CHECK_WINDOW_BYTES)
    for at, header, rest in walk:
        if header.size <= len(rest):
            crc_matches = crc32c(rest[CRC_START : header.size]) == header.crc
        else:
            crc_matches = crc_in_file(file, at, header)
        if not crc_matches:
            raise BatchAnomaly(at, "the CRC32C does not match")
        yield at, header


def headers(file: File, position: int, limit: int, contiguous: bool) -> Iterator[tuple[int, BatchHeader]]:
    """Like `checked_batches`, but checks only the headers, not the CRC."""
    for at, header, _ in _walk(file, position, limit, None, contiguous, _WALK_WINDOW_BYTES, _WALK_WINDOW_BYTES_MAX):
        yield at, header


def _walk(
    file: File,
    position: int,
    limit: int,
    expected_offset: int | None,
    contiguous: bool,
    window_bytes: int,
    window_bytes_max: int,
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Position, checked header, and the bytes of the window from there on, of every batch in [position, limit).

    Reads windows of `window_bytes`, which double up to `window_bytes_max`.
    """
    window = memoryview(b"")
    window_start = position
    while position < limit:
        at = position - window_start
        if len(window) - at < HEADER_BYTES:
            window = memoryview(file.pread(min(window_bytes, limit - position), position))
            window_start = position
            window_bytes = min(2 * window_bytes, window_bytes_max)
            at = 0
            if len(window) < HEADER_BYTES:
                raise BatchAnomaly(position, "the file ends inside a batch header")
        header = parse_header(window, at)
        flaw = header_flaw(header, limit - position, contiguous)
        if flaw is None and expected_offset is not None:
            flaw = chain_flaw(header, expected_offset, contiguous)
        if flaw is not None:
            raise BatchAnomaly(position, flaw)
        yield position, header, window[at:]
        position += header.size
        expected_offset = header.end_offset


def find_batch(
    file: File, position: int, limit: int, offset: int, witness: int | None
) -> tuple[int, BatchHeader] | None:
    """The first batch in [position, limit) that ends at or after `offset`; None if all of them end before it.

    Every read walks from an index entry to its batch this way: over verified bytes, with four fields per header.
    `witness` is the last offset of the first batch according to the index, if there is an entry.
    """
    window_bytes = _WALK_WINDOW_BYTES
    while position < limit:
        window = file.pread(min(window_bytes, limit - position), position)
        last = len(window) - HEADER_BYTES
        at = 0
        while at <= last:
            base_offset, length, magic, last_offset_delta = _unpack_walked_fields(window, at)
            if magic != MAGIC_V2 or length < MIN_BATCH_LENGTH:
                raise BatchAnomaly(position + at, "no batch begins at the end of the previous one")
            last_offset = base_offset + last_offset_delta
            if witness is not None:
                if last_offset != witness:
                    raise BatchAnomaly(
                        position + at, f"the last offset of the batch is {last_offset}, the index has {witness}"
                    )
                witness = None
            if last_offset >= offset:
                return position + at, parse_header(window, at)
            at += length + LOG_OVERHEAD
        if at == 0:
            raise BatchAnomaly(position, "the file ends inside a batch header")
        position += at
        window_bytes = min(2 * window_bytes, _WALK_WINDOW_BYTES_MAX)
    return None
