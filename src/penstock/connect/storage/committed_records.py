"""The records of fetched batches that readers of committed data see, one by one. For small topics only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from penstock.protocol.control_records import read_marker
from penstock.protocol.record_batch import HEADER_BYTES, LOG_OVERHEAD, parse_header
from penstock.protocol.records import Record, read_records
from penstock.wire.fetch import Fetched

_BATCH_BYTES_MAX: Final = 1 << 30


def committed_records(fetched: Fetched, start_offset: int) -> Iterator[Record]:
    """From `start_offset` on. `fetched` comes from a fetch with read_committed."""
    starts = sorted(fetched.aborted, key=lambda each: each[1])
    aborted: set[int] = set()
    position = 0
    while position + HEADER_BYTES <= len(fetched.records):
        header = parse_header(fetched.records, position)
        batch = fetched.records[position : position + LOG_OVERHEAD + header.batch_length]
        position += len(batch)
        while starts and starts[0][1] < header.end_offset:
            aborted.add(starts.pop(0)[0])
        if header.is_control:
            marker = read_marker(batch, header)
            if marker is not None and not marker.committed:
                aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            for record in read_records(batch, header, _BATCH_BYTES_MAX):
                if record.offset >= start_offset:
                    yield record
