"""Control batches: the markers that end a transaction in each of its partitions (KIP-98).

Owns: the format of a marker, which is a single record in its own batch. The key is COMMIT or ABORT; the value has the
epoch of the coordinator.
Must never know: the effect of a marker on a log or a reader.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from penstock.core.errors import ProtocolError
from penstock.protocol.record_batch import BatchHeader
from penstock.protocol.record_encoding import BatchProducer, NewRecord, encode_batch
from penstock.protocol.records import read_records

_KEY: Final = Struct(">hh")  # version, type
_VALUE: Final = Struct(">hi")  # version, coordinator epoch
_VERSION: Final = 0
_ABORT: Final = 0
_COMMIT: Final = 1
_MARKER_BYTES_MAX: Final = 1 << 10  # of the records; ours have 17 bytes, and later versions may add fields


class TransactionMarker(NamedTuple):
    committed: bool
    coordinator_epoch: int


def encode_marker(
    producer_id: int, producer_epoch: int, marker: TransactionMarker, now_ms: int
) -> tuple[memoryview, BatchHeader]:
    """The control batch that ends the producer's transaction in one partition."""
    key = _KEY.pack(_VERSION, _COMMIT if marker.committed else _ABORT)
    value = _VALUE.pack(_VERSION, marker.coordinator_epoch)
    return encode_batch(
        [NewRecord(key, value, now_ms)],
        producer=BatchProducer(producer_id, producer_epoch),
        transactional=True,
        control=True,
    )


def read_marker(batch: memoryview, header: BatchHeader) -> TransactionMarker | None:
    """The marker of a control batch; None for other types of control records.

    Also None for a batch without records: compaction leaves them after the transaction's records are removed.
    """
    if not header.is_control or header.records_count == 0:
        return None
    try:
        record = next(read_records(batch, header, _MARKER_BYTES_MAX))
    except ProtocolError:
        return None
    return parse_marker(record.key or b"", record.value or b"")


def parse_marker(key: bytes, value: bytes) -> TransactionMarker | None:
    """The marker of a control record. As in Kafka, unknown fields of a newer version are ignored."""
    if len(key) < _KEY.size or len(value) < _VALUE.size:
        return None
    _, kind = _KEY.unpack_from(key)
    if kind not in (_ABORT, _COMMIT):
        return None
    return TransactionMarker(kind == _COMMIT, _VALUE.unpack_from(value)[1])
