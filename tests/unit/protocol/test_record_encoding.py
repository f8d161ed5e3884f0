"""The batch encoder: decodes to the same records, matches the tests' own encoder, and has a valid CRC."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import ProtocolError
from penstock.protocol.compression import Compression
from penstock.protocol.record_batch import crc_holds
from penstock.protocol.record_encoding import BatchProducer, NewRecord, encode_batch
from penstock.protocol.records import read_records
from tests import record_batches

BYTES_MAX = 1 << 20
CONTENT = st.none() | st.binary(max_size=80)
RECORDS = st.lists(
    st.builds(
        NewRecord,
        key=CONTENT,
        value=CONTENT,
        timestamp=st.integers(0, 2**62),
        headers=st.lists(st.tuples(st.text(max_size=5), CONTENT), max_size=3),
    ),
    min_size=1,
    max_size=6,
)


@given(RECORDS, st.sampled_from(Compression))
def test_what_is_encoded_is_read_back(records: list[NewRecord], compression: Compression) -> None:
    batch, header = encode_batch(records, compression=compression)
    assert crc_holds(batch, header)
    assert header.size == len(batch)
    read = list(read_records(batch, header, BYTES_MAX))
    assert [NewRecord(each.key, each.value, each.timestamp, each.headers) for each in read] == records
    assert [each.offset for each in read] == list(range(len(records)))


@given(RECORDS)
def test_the_bytes_are_those_of_the_tests_own_encoder(records: list[NewRecord]) -> None:
    plain = [record_batches.Record(each.value, each.key, each.timestamp, each.headers) for each in records]
    assert bytes(encode_batch(records)[0]) == bytes(record_batches.encode_batch(plain))


def test_a_batch_says_whose_it_is() -> None:
    _, header = encode_batch(
        [NewRecord(b"k", b"v", 5)], producer=BatchProducer(7, 3, 11), transactional=True, control=True
    )
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 11)
    assert header.is_transactional
    assert header.is_control


@pytest.mark.parametrize("cut", [1, 3, 8])
def test_records_that_do_not_fit_their_batch_are_refused(cut: int) -> None:
    batch, header = encode_batch([NewRecord(b"key", b"value", 5, [("name", b"content")])])
    with pytest.raises(ProtocolError):
        list(read_records(batch[:-cut], header, BYTES_MAX))


def test_headers_are_not_believed() -> None:
    batch, header = encode_batch([NewRecord(b"k", b"v", 5)])
    damaged = bytearray(batch)
    damaged[-1] = 0x7E  # 63 headers in no bytes
    with pytest.raises(ProtocolError):
        list(read_records(memoryview(damaged), header, BYTES_MAX))
