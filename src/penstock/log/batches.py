"""Walking from batch to batch in a log file, with and without checking them.

Owns: what makes a stored batch believable, on its own and as the successor of the one before it; reading in windows, so
that neither a header per system call nor a damaged length can make it slow or big.
Must never know: segments, indexes, what is done about a bad batch.

Invariant: `checked_batches` yields only batches whose bytes are whole, whose CRC32C holds and whose offsets follow on.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final

from crc32c import crc32c

from penstock.log.filesystem import File
from penstock.protocol.record_batch import CRC_START, HEADER_BYTES, LOG_OVERHEAD, MAGIC_V2, BatchHeader, parse_header

MIN_BATCH_LENGTH: Final = HEADER_BYTES - LOG_OVERHEAD  # what the length field of an empty batch says
MAX_OFFSET: Final = (1 << 63) - 1

_CHECK_WINDOW_BYTES: Final = 256 << 10
_WALK_WINDOW_BYTES: Final = 4096
_WALK_WINDOW_BYTES_MAX: Final = 64 << 10

_WALKED_FIELDS: Final = Struct(">qi4xb6xi")  # base offset, length, magic, last offset delta
_unpack_walked_fields = _WALKED_FIELDS.unpack_from


class BatchAnomaly(Exception):
    """The bytes at `position` are not the batch that must be there, or an index says otherwise than the log."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(reason)
        self.position = position
        self.reason = reason


def header_flaw(header: BatchHeader, room: int, contiguous: bool) -> str | None:
    """What is wrong with a header on its own, given that `room` bytes are left for its batch; None if nothing is."""
    if header.magic != MAGIC_V2:
        return f"the magic byte is {header.magic}, not {MAGIC_V2}"
    if header.batch_length < MIN_BATCH_LENGTH:
        return f"the batch length is {header.batch_length}"
    if header.size > room:
        return f"the batch says that it is {header.size} bytes long, {room} are there"
    delta = header.last_offset_delta
    count = header.records_count
    if delta < 0 or not (count == delta + 1 if contiguous else 0 <= count <= delta + 1):
        return f"{count} records do not fit a last offset delta of {delta}"
    if not 0 <= header.base_offset <= MAX_OFFSET - delta - 1:
        return f"the base offset is {header.base_offset}"
    return None


def chain_flaw(header: BatchHeader, expected_offset: int, contiguous: bool) -> str | None:
    """What is wrong with a header as the successor of a batch that ended before `expected_offset`."""
    base_offset = header.base_offset
    if base_offset == expected_offset or (base_offset > expected_offset and not contiguous):
        return None
    return f"the base offset is {base_offset} where {expected_offset} must follow"


def crc_in_file(file: File, position: int, header: BatchHeader) -> bool:
    """Whether the batch at `position` has the CRC of its header; reads it in windows, whatever length it claims."""
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
    """Yields position and header of every batch in [position, limit), each verified; BatchAnomaly at the first bad one.

    `expected_offset` is where the first batch must begin; None if the caller has another witness for it.
    """
    window = memoryview(b"")
    window_start = position
    while position < limit:
        at = position - window_start
        if len(window) - at < HEADER_BYTES:
            window = memoryview(file.pread(min(_CHECK_WINDOW_BYTES, limit - position), position))
            window_start = position
            at = 0
            if len(window) < HEADER_BYTES:
                raise BatchAnomaly(position, "the file ends inside a batch header")
        header = parse_header(window, at)
        flaw = header_flaw(header, limit - position, contiguous)
        if flaw is None and expected_offset is not None:
            flaw = chain_flaw(header, expected_offset, contiguous)
        if flaw is not None:
            raise BatchAnomaly(position, flaw)
        end = at + header.size
        if end <= len(window):
            crc_holds = crc32c(window[at + CRC_START : end]) == header.crc
        else:
            crc_holds = crc_in_file(file, position, header)
        if not crc_holds:
            raise BatchAnomaly(position, "the CRC32C does not hold")
        yield position, header
        position += header.size
        expected_offset = header.end_offset


def headers(file: File, position: int, limit: int, contiguous: bool) -> Iterator[tuple[int, BatchHeader]]:
    """Yields position and header of every batch in [position, limit) unverified; BatchAnomaly where the chain breaks."""
    window = b""
    window_start = position
    window_bytes = _WALK_WINDOW_BYTES
    expected_offset = None
    while position < limit:
        at = position - window_start
        if len(window) - at < HEADER_BYTES:
            window = file.pread(min(window_bytes, limit - position), position)
            window_start = position
            window_bytes = min(2 * window_bytes, _WALK_WINDOW_BYTES_MAX)
            at = 0
            if len(window) < HEADER_BYTES:
                raise BatchAnomaly(position, "the file ends inside a batch header")
        header = parse_header(window, at)
        flaw = header_flaw(header, limit - position, contiguous)
        if flaw is None and expected_offset is not None:
            flaw = chain_flaw(header, expected_offset, contiguous)
        if flaw is not None:
            raise BatchAnomaly(position, flaw)
        yield position, header
        position += header.size
        expected_offset = header.end_offset


def find_batch(
    file: File, position: int, limit: int, offset: int, witness: int | None
) -> tuple[int, BatchHeader] | None:
    """The first batch in [position, limit) that ends with or after `offset`; None if all of them end before it.

    This is every read's walk from an index entry to its batch: over trusted bytes, four fields of each header. `witness`
    is the last offset of the first batch, if an index named one.
    """
    window_bytes = _WALK_WINDOW_BYTES
    while position < limit:
        window = file.pread(min(window_bytes, limit - position), position)
        last = len(window) - HEADER_BYTES
        at = 0
        while at <= last:
            base_offset, length, magic, last_offset_delta = _unpack_walked_fields(window, at)
            if magic != MAGIC_V2 or length < MIN_BATCH_LENGTH:
                raise BatchAnomaly(position + at, "no batch begins where the one before it ends")
            last_offset = base_offset + last_offset_delta
            if witness is not None:
                if last_offset != witness:
                    raise BatchAnomaly(position + at, f"the batch ends with {last_offset}, its index says {witness}")
                witness = None
            if last_offset >= offset:
                return position + at, parse_header(window, at)
            at += length + LOG_OVERHEAD
        if at == 0:
            raise BatchAnomaly(position, "the file ends inside a batch header")
        position += at
        window_bytes = min(2 * window_bytes, _WALK_WINDOW_BYTES_MAX)
    return None


def next_good_batch(
    file: File,
    position: int,
    limit: int,
    *,
    after_offset: int,
    upper_offset: int,
    contiguous: bool,
    may_be_torn: bool,
) -> tuple[int, BatchHeader] | None:
    """The first whole batch behind a bad one at `position`: its CRC holds, its offsets are in (after_offset, upper_offset].

    First where the bad batch says that it ends: most often that much of it is right. Then at every byte behind it that
    may be the magic byte of a header.
    """
    bad = _header_at(file, position, limit)
    if bad is None or bad.base_offset != after_offset or header_flaw(bad, MAX_OFFSET, contiguous) is not None:
        return _search(file, position + 1, limit, (after_offset + 1, upper_offset), upper_offset, contiguous)
    claimed_end = position + bad.size
    if claimed_end < limit:
        found = _good_batch_at(file, claimed_end, limit, after_offset + 1, upper_offset, contiguous)
        if found is not None:
            return claimed_end, found
        return _search(file, position + 1, limit, (after_offset + 1, upper_offset), upper_offset, contiguous)
    # Its header is whole and its end is missing: a torn write, or a damaged length. In a torn one, all that follows are its
    # own records, and one of them may hold a batch, by chance (a backup of this topic) or by malice. So the successor must
    # have the right offset and, where a write may have been torn, the batch must prove to be whole up to there.
    successor = _search(file, position + 1, limit, (bad.end_offset, bad.end_offset), upper_offset, contiguous)
    if successor is not None and may_be_torn:
        as_it_was = bad._replace(batch_length=successor[0] - position - LOG_OVERHEAD)
        if not crc_in_file(file, position, as_it_was):
            return None
    return successor


_MAGIC_AT: Final = 16
_MAGIC_BYTE: Final = bytes([MAGIC_V2])
_SEARCH_WINDOW_BYTES: Final = 1 << 20


def _search(
    file: File, position: int, limit: int, base_offsets: tuple[int, int], upper_offset: int, contiguous: bool
) -> tuple[int, BatchHeader] | None:
    lowest, highest = base_offsets
    while limit - position >= HEADER_BYTES:
        window = file.pread(min(_SEARCH_WINDOW_BYTES, limit - position), position)
        last = len(window) - HEADER_BYTES
        if last < 0:
            return None
        magic_at = window.find(_MAGIC_BYTE, _MAGIC_AT)
        while 0 <= magic_at <= last + _MAGIC_AT:
            at = magic_at - _MAGIC_AT
            base_offset, length, _, _ = _unpack_walked_fields(window, at)
            if lowest <= base_offset <= highest and MIN_BATCH_LENGTH <= length <= limit - position - at - LOG_OVERHEAD:
                found = _good_batch_at(file, position + at, limit, base_offset, upper_offset, contiguous)
                if found is not None:
                    return position + at, found
            magic_at = window.find(_MAGIC_BYTE, magic_at + 1)
        position += last + 1
    return None


def _header_at(file: File, position: int, limit: int) -> BatchHeader | None:
    if limit - position < HEADER_BYTES:
        return None
    window = file.pread(HEADER_BYTES, position)
    return parse_header(window) if len(window) == HEADER_BYTES else None


def _good_batch_at(
    file: File, position: int, limit: int, lowest_base_offset: int, upper_offset: int, contiguous: bool
) -> BatchHeader | None:
    header = _header_at(file, position, limit)
    if header is None or header_flaw(header, limit - position, contiguous) is not None:
        return None
    if not (lowest_base_offset <= header.base_offset and header.end_offset <= upper_offset):
        return None
    return header if crc_in_file(file, position, header) else None
