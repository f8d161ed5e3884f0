"""The end of the last complete batch of a fetch response."""

from __future__ import annotations

import pytest

from penstock.core.errors import ProtocolError
from penstock.protocol.record_batch import assign
from penstock.protocol.record_encoding import NewRecord, encode_batch
from penstock.wire.fetch import whole_batches


def batch(base_offset: int, count: int) -> bytes:
    encoded, _ = encode_batch([NewRecord(None, b"value", 0)] * count)
    assign(encoded, base_offset, 0)
    return bytes(encoded)


@pytest.mark.parametrize("cut", [0, 1, 11, 12, 60, 61, 70])
def test_what_was_cut_off_is_left_out(cut: int) -> None:
    whole = batch(10, 3) + batch(20, 2)
    records = memoryview(whole + batch(22, 5)[:cut])
    assert whole_batches(records, "here") == (len(whole), 22)


def test_bytes_that_are_no_batches() -> None:
    with pytest.raises(ProtocolError, match=r"here: .* without one complete"):
        whole_batches(memoryview(batch(0, 1)[:-1]), "here")
    with pytest.raises(ProtocolError, match="here: a record batch has an invalid length of -1 bytes"):
        whole_batches(memoryview(b"\xff" * 100), "here")
