"""The records of one range of offsets as Arrow batches: what a task does.

It must never plan: what it is given it reads, or it says what is missing.

Invariants:
- An Arrow batch is made before the next answer is taken: the bytes of an answer are gone two answers later.
- Each record of the range comes once, in order, or the task fails.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from penstock.core.errors import AccessDenied, BrokerUnreachable, UnknownTopic
from penstock.pipeline.kernel_cache import use_kernel_cache
from penstock.pipeline.process_state import discard_client, shared_client
from penstock.pipeline.topics.data_loss import DataLossPolicy
from penstock.pipeline.topics.errors import TopicSourceError
from penstock.pipeline.topics.options import SourceOptions
from penstock.pipeline.topics.planning import OffsetRange
from penstock.pipeline.topics.wire_cluster import isolation_level, wire_settings
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.wire.client import Fetched, FetchOptions, Pending, WireClient

if TYPE_CHECKING:
    import pyarrow as pa

_ASKED_MAX: Final = 8


def read_ranges(
    options: SourceOptions, columns: Sequence[str], pieces: Sequence[OffsetRange]
) -> Iterator[pa.RecordBatch]:
    """One behind the other. The first answers of those that follow are under way meanwhile, a few at a time."""
    asked: deque[Pending | None] = deque()
    for number, piece in enumerate(pieces):
        for following in pieces[number + len(asked) : number + _ASKED_MAX]:
            asked.append(_ask(options, following))
        yield from read_range(options, columns, piece, asked.popleft())


def _ask(options: SourceOptions, piece: OffsetRange) -> Pending | None:
    return shared_client(wire_settings(options.kafka)).send_fetch(
        piece.topic_partition, piece.start_offset, _fetch_options(options)
    )


def read_range(
    options: SourceOptions, columns: Sequence[str], piece: OffsetRange, asked: Pending | None = None
) -> Iterator[pa.RecordBatch]:
    loss = DataLossPolicy(options.fail_on_data_loss)
    start_offset = piece.start_offset
    settings = wire_settings(options.kafka)
    while start_offset < piece.end_offset:
        reading = _Reading(options, columns, piece, start_offset, asked)
        asked = None
        try:
            yield from reading.batches(shared_client(settings))
            return
        except UnknownTopic:
            loss.gone(piece.topic_partition, reading.next_offset)
            return
        except BrokerError as refusal:
            if refusal.entry.condition == AccessDenied.condition:
                raise  # a retry would change nothing
            if refusal.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                raise TopicSourceError(f"{piece.topic_partition} cannot be read: {refusal.message}") from refusal
            start_offset = _after_loss(shared_client(settings), piece, reading.next_offset, loss)
        except BrokerUnreachable:
            discard_client(settings)
            raise


class _Reading:
    """One run through the range from one offset on."""

    def __init__(
        self,
        options: SourceOptions,
        columns: Sequence[str],
        piece: OffsetRange,
        start_offset: int,
        asked: Pending | None,
    ) -> None:
        # numba and Arrow are loaded where records are decoded, and nowhere else.
        use_kernel_cache()
        from penstock.columns.decoding import RecordColumns

        topic, partition = piece.topic_partition
        self._columns = RecordColumns(topic, partition, start_offset, piece.end_offset, columns=columns)
        self._options = options
        self._piece = piece
        self._asked = asked

    @property
    def next_offset(self) -> int:
        return self._columns.next_offset

    def batches(self, client: WireClient) -> Iterator[pa.RecordBatch]:
        options = self._options
        wanted = _fetch_options(options)
        partition, timeout_s = self._piece.topic_partition, options.poll_timeout_ms / 1000
        # Most ranges of a stream fit one answer, for which a stream's own connection would not be worth its while.
        first = client.fetch(partition, self.next_offset, wanted, timeout_s=timeout_s, sent=self._asked)
        yield from self._decoded(first)
        if self._columns.is_complete:
            return
        with client.fetch_ahead(
            partition, self.next_offset, self._piece.end_offset, wanted, timeout_s=timeout_s
        ) as answers:
            for fetched in answers:
                yield from self._decoded(fetched)

    def _decoded(self, fetched: Fetched) -> Iterator[pa.RecordBatch]:
        yield from self._columns.feed(fetched.records, fetched.aborted)
        yield from self._columns.flush()


def _fetch_options(options: SourceOptions) -> FetchOptions:
    return FetchOptions(
        max_bytes=options.fetch_bytes,
        min_bytes=options.fetch_min_bytes,
        max_wait_ms=options.fetch_max_wait_ms,
        isolation_level=isolation_level(options),
    )


def _after_loss(client: WireClient, piece: OffsetRange, offset: int, loss: DataLossPolicy) -> int:
    """Where there still is something to read, if the query may go on at all."""
    partition = piece.topic_partition
    earliest = client.list_offsets({partition: "earliest"})[partition].offset
    if earliest > offset:
        loss.aged_out(partition, offset, earliest)
        return earliest
    loss.shrunk(partition, offset, client.list_offsets({partition: "latest"})[partition].offset)
    return piece.end_offset
