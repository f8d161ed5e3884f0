"""Records of ranges of offsets as Arrow batches, in a task.

It must never plan: it reads what it is told to read, or fails.

Invariant: each visible record of a range comes once, in order, with its key, value, headers, position and timestamp.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.connect.runtime.client_settings import ConsumerSettings
from penstock.core.errors import BrokerUnreachable
from penstock.pipeline.kernel_cache import use_kernel_cache
from penstock.pipeline.process_state import discard_client, shared_client
from penstock.pipeline.topics.planning import OffsetRange
from penstock.wire.client import Fetched, WireClient

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.columns.decoding import RecordColumns


def read_ranges(settings: ConsumerSettings, ranges: Sequence[OffsetRange]) -> Iterator[pa.RecordBatch]:
    """Columns: those of `columns.decoding.COLUMNS_WITH_HEADERS`. A batch has records of one partition."""
    # numba and Arrow are loaded where records are decoded, and nowhere else.
    use_kernel_cache()
    try:
        for each in ranges:
            yield from _read_range(shared_client(settings.wire), settings, each)
    except BrokerUnreachable:
        discard_client(settings.wire)
        raise


def _read_range(client: WireClient, settings: ConsumerSettings, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
    from penstock.columns.decoding import COLUMNS_WITH_HEADERS, RecordColumns

    partition, start, end = wanted.topic_partition, wanted.start_offset, wanted.end_offset
    columns = RecordColumns(partition.topic, partition.partition, start, end, columns=COLUMNS_WITH_HEADERS)
    timeout_s = settings.poll_timeout_s
    # Most ranges fit one answer, for which a stream's own connection would not be worth its while.
    first = client.fetch(partition, start, settings.fetch, timeout_s=timeout_s)
    yield from _decoded(columns, first)
    if columns.is_complete:
        return
    with client.fetch_ahead(partition, columns.next_offset, end, settings.fetch, timeout_s=timeout_s) as answers:
        for fetched in answers:
            yield from _decoded(columns, fetched)


def _decoded(columns: RecordColumns, fetched: Fetched) -> Iterator[pa.RecordBatch]:
    # The bytes of an answer are gone two answers later, so nothing of it may be kept back.
    yield from columns.feed(fetched.records, fetched.aborted)
    yield from columns.flush()
