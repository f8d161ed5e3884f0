from __future__ import annotations

import pytest

from penstock.protocol.control_records import TransactionMarker, encode_marker, read_marker
from penstock.protocol.record_batch import HEADER_BYTES, crc_holds
from penstock.protocol.record_encoding import BatchProducer, NewRecord, encode_batch

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize("marker", [TransactionMarker(True, 3), TransactionMarker(False, 2**31 - 1)])
def test_a_marker_reads_back(marker: TransactionMarker) -> None:
    batch, header = encode_marker(4000, 5, marker, NOW_MS)
    assert read_marker(batch, header) == marker
    assert crc_holds(batch, header)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4000, 5, -1)
    assert (header.records_count, header.last_offset_delta, header.max_timestamp) == (1, 0, NOW_MS)


def test_a_marker_has_kafkas_bytes() -> None:
    batch, _ = encode_marker(4000, 5, TransactionMarker(True, 258), NOW_MS)
    record = "2000000008000000010c00000000010200"
    assert bytes(batch[HEADER_BYTES:]).hex() == record
    assert bytes(batch[21:23]).hex() == "0030", "control and transactional"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\0\0\0\x02", b"\0\0\0\0\0\0"),  # a leader change, as raft writes it
        (b"\0\0\0", b"\0\0\0\0\0\0"),
        (b"\0\0\0\x01", b"\0\0\0\0\0"),
        (None, None),
    ],
    ids=["another kind", "a short key", "a short value", "nothing"],
)
def test_what_is_not_a_marker_is_none(key: bytes | None, value: bytes | None) -> None:
    record = NewRecord(key, value, NOW_MS)
    assert read_marker(*encode_batch([record], producer=BatchProducer(7, 0), transactional=True, control=True)) is None


def test_batches_without_a_readable_record_are_no_markers() -> None:
    batch, header = encode_marker(4000, 5, TransactionMarker(True, 0), NOW_MS)
    assert read_marker(batch[:HEADER_BYTES], header._replace(records_count=0)) is None, "as compaction leaves it"
    assert read_marker(batch[:-1], header) is None
    assert read_marker(batch, header._replace(attributes=0x10)) is None, "a batch of data"


def test_a_later_version_is_read_as_far_as_it_is_known() -> None:
    record = NewRecord(b"\0\x07\0\x00", b"\0\x07\0\0\0\x09new", NOW_MS)
    batch, header = encode_batch([record], producer=BatchProducer(7, 0), transactional=True, control=True)
    assert read_marker(batch, header) == TransactionMarker(False, 9)
