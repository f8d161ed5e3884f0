"""Rows of a DataFrame into record batches, and their way to the one task that writes a partition.

Owns: which columns make a record, which topic a row goes to, how many partitions that topic has, and the arrangement
that a transaction needs. One producer id is shared by all tasks of a transaction, and a broker counts a producer's
records in each partition, so a partition has to be written by one task. `repartition_by_target` ensures that: it
encodes where the rows are, and shuffles whole record batches, a few rows of a megabyte, to the tasks that own their
partitions.
Must never know: transactions.

Invariant: rows that one task encodes for one partition keep their order.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.core import dead_letters
from penstock.core.errors import UnknownTopic
from penstock.core.limits import RESPONSE_BYTES_MAX
from penstock.pipeline.kernel_cache import use_kernel_cache
from penstock.pipeline.process_state import process_wide, shared_client
from penstock.pipeline.spark.session import is_on_one_machine
from penstock.pipeline.topics.errors import InvalidOption, RecordTooLarge, TopicSinkError
from penstock.pipeline.topics.sink_columns import ARRANGED_SCHEMA, input_columns
from penstock.pipeline.topics.sink_options import SinkOptions, read_sink_options
from penstock.protocol.record_batch import parse_header
from penstock.protocol.records import read_records
from penstock.wire.client import WireClient
from penstock.wire.retry import UNKNOWN_TOPIC_GRACE_S

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from penstock.columns.encoding import ColumnEncoder

# Rows are gathered up to here before they are encoded, so that record batches are large although Spark hands rows over
# ten thousand at a time and a topic has many partitions.
_GATHERED_BYTES: Final = 8 * 1024 * 1024
_ROWS_BYTES: Final = 1024 * 1024
_TOPIC_PAUSE_S: Final = 0.1
_PARTITION_COUNT_MAX_AGE_S: Final = 1.0
_SIZE_LIMIT_MAX_AGE_S: Final = 1.0
# What cannot be compressed grows: by less than a hundredth, with every codec of Kafka's.
_COMPRESSION_OVERHEAD: Final = 100
_BATCH_BYTES_MIN: Final = 1024
_EXCERPT_CHARACTERS: Final = 60


class Chunk(NamedTuple):
    """A record batch that belongs to no producer yet."""

    topic: str
    partition: int
    records: int
    content: memoryview


class RowEncoder:
    """Encodes the rows of one task. `partition_count` is asked once for each topic, and so is `bytes_max`, the size of
    the largest record batch that the topic takes; None: unknown."""

    def __init__(
        self,
        options: SinkOptions,
        columns: list[str],
        partition_count: Callable[[str], int],
        first_turn: int,
        bytes_max: Callable[[str], int | None] = lambda _: None,
    ) -> None:
        self._options = options
        self._columns = columns
        self._partition_count = partition_count
        self._first_turn = first_turn
        self._encoders: dict[str, ColumnEncoder] = {}
        self._ask_bytes_max = bytes_max
        self._bytes_max: dict[str, int | None] = {}

    def encode(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Chunk]:
        for rows in _gathered(batches, self._columns):
            for topic, rows_of_topic in self._by_topic(rows):
                encoder = self._encoders.get(topic) or self._encoder(topic)
                try:
                    encoded = encoder.encode(rows_of_topic, time.time_ns() // 1_000_000)
                    for partition, records, content in encoded:
                        self._require_fit(topic, content)
                        yield Chunk(topic, partition, records, content)
                except ValueError as mistake:
                    raise TopicSinkError(f"topic '{topic}': {mistake}") from mistake

    def _require_fit(self, topic: str, content: memoryview) -> None:
        """Record batches are no larger than the topic takes, unless one record alone is."""
        bytes_max = self._bytes_max[topic]
        if bytes_max is not None and len(content) > bytes_max:
            raise RecordTooLarge(
                f"topic '{topic}': a record takes {len(content)} bytes, and max.message.bytes of the topic is"
                f" {bytes_max} ({_record_text(content)})"
            )

    def _by_topic(self, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        import pyarrow.compute as pc

        if self._options.topic is not None:
            yield self._options.topic, rows
            return
        topics = rows.column(rows.schema.get_field_index("topic")).dictionary_encode()
        if topics.null_count:
            raise TopicSinkError("null topic present in the data. Use the topic option for setting a topic.")
        names = topics.dictionary.to_pylist()
        for number, name in enumerate(names):
            yield name, rows if len(names) == 1 else rows.filter(pc.equal(topics.indices, number))

    def _encoder(self, topic: str) -> ColumnEncoder:
        # numba and Arrow are loaded where rows are encoded, and nowhere else.
        use_kernel_cache()
        from penstock.columns.encoding import BatchLimits, ColumnEncoder
        from penstock.columns.partitioning import ColumnPartitioner
        from penstock.protocol.compression import Compression

        options = self._options
        partitions = self._partition_count(topic)  # which waits until the topic exists
        bytes_max = self._bytes_max[topic] = self._ask_bytes_max(topic)
        batch_bytes = options.batch_bytes
        if bytes_max is not None:
            batch_bytes = max(min(batch_bytes, bytes_max - bytes_max // _COMPRESSION_OVERHEAD), _BATCH_BYTES_MIN)
        encoder = self._encoders[topic] = ColumnEncoder(
            ColumnPartitioner(partitions, first_turn=self._first_turn, rows_per_turn=options.batch_rows),
            compression=Compression[options.compression.upper()],
            compression_level=options.compression_level,
            limits=BatchLimits(options.batch_rows, batch_bytes),
        )
        return encoder


def _record_text(content: memoryview) -> str:
    """Which record it is. A dead letter says where its row was read; other rows have no position any more."""
    record = next(read_records(content, parse_header(content), RESPONSE_BYTES_MAX))
    said = {name: value.decode(errors="replace") for name, value in record.headers if value is not None}
    if dead_letters.REASON in said:
        place = said.get(dead_letters.TOPIC, "a source")
        if dead_letters.OFFSET in said:
            place += f" partition {said.get(dead_letters.PARTITION)} offset {said[dead_letters.OFFSET]}"
        return f"the dead letter of {place}"
    return f"key {_excerpt(record.key)}, value {_excerpt(record.value)}"


def _excerpt(data: bytes | None) -> str:
    """The beginning, in quotes, in one line; NULL for NULL."""
    if data is None:
        return "NULL"
    text = data[: 4 * _EXCERPT_CHARACTERS + 4].decode(errors="replace")  # UTF-8 takes at most four bytes
    legible = "".join(letter if letter.isprintable() else "\ufffd" for letter in text)
    return f"'{legible[:_EXCERPT_CHARACTERS]}...'" if len(legible) > _EXCERPT_CHARACTERS else f"'{legible}'"


class PartitionCounts:
    """How many partitions topics have. The answer expires, because partitions are added while a query runs."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[tuple[str, str], tuple[int, float]] = {}

    def of(self, options: SinkOptions, topic: str) -> int:
        where, now_s = (options.kafka["bootstrap.servers"], topic), self._clock()
        count, asked_s = self._known.get(where, (0, float("-inf")))
        if now_s - asked_s >= _PARTITION_COUNT_MAX_AGE_S:
            count = partition_count(shared_client(options.wire_settings), topic)
            self._known[where] = (count, now_s)
        return count


class MessageSizeLimits:
    """`max.message.bytes` of topics. The answer expires, because settings are changed while a query runs."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[tuple[str, str], tuple[int | None, float]] = {}

    def of(self, options: SinkOptions, topic: str) -> int | None:
        where, now_s = (options.kafka["bootstrap.servers"], topic), self._clock()
        limit, asked_s = self._known.get(where, (None, float("-inf")))
        if now_s - asked_s >= _SIZE_LIMIT_MAX_AGE_S:
            said = shared_client(options.wire_settings).topic_config(topic, "max.message.bytes")
            limit = int(said) if said is not None and said.isdigit() else None
            self._known[where] = (limit, now_s)
        return limit


def partition_count(client: WireClient, topic: str) -> int:
    """As Kafka's producers do, this lets a broker create the topic if it is set up to."""
    deadline = time.monotonic() + UNKNOWN_TOPIC_GRACE_S
    while True:
        found = client.metadata([topic], allow_auto_topic_creation=True).topics.get(topic)
        if found is not None and found.partitions:
            return len(found.partitions)
        if time.monotonic() > deadline:
            raise UnknownTopic(f"topic '{topic}' does not exist, and the broker does not create it")
        time.sleep(_TOPIC_PAUSE_S)


_partition_counts: Final = process_wide(PartitionCounts)
_size_limits: Final = process_wide(MessageSizeLimits)


def encoder_of_task(options: SinkOptions, columns: list[str]) -> RowEncoder:
    """For the task that runs in this process."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return RowEncoder(
        options,
        columns,
        lambda topic: _partition_counts.of(options, topic),
        context.partitionId(),
        lambda topic: _size_limits.of(options, topic),
    )


def repartition_by_target(frame: DataFrame, options: Mapping[str, str], *, writers: int | None = None) -> DataFrame:
    """Record batches in place of rows, each in the task that owns its partition: write this, with the same options.

    `writers` is the number of tasks that write; by default as many as run side by side, but no more than the topic has
    partitions. The rows' topics may differ.
    """
    read = read_sink_options(options)
    columns = input_columns(frame.schema, read.topic)
    count = writers or _writer_count(frame, read)
    _require_single_stage_attempts(frame)

    def encode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _as_rows(encoder_of_task(read, columns).encode(batches), count)

    encoded = frame.mapInArrow(encode, ARRANGED_SCHEMA)
    return encoded.repartitionById(count, "writer")


def ready_to_write(
    rows: DataFrame, options: Mapping[str, str], directory: Path | None
) -> tuple[DataFrame, dict[str, str]]:
    """The rows to write, and the options of the sink to write them with.

    Only a transaction needs more than the rows, because one place has to assign the sequences of a partition's records.
    On one machine that place is the commit: tasks hand over record batches through memory and files, which saves the
    shuffle that dominates a small batch. On a cluster it is one task for each partition.

    `directory` is the query's own, on the driver's disk and the same at every start; None if there is none.
    """
    if options["guarantee"] != "exactly_once":
        return rows, dict(options)
    if directory is not None and is_on_one_machine(rows.sparkSession):
        return rows, {"handOverDirectory": str(directory), **options}
    return repartition_by_target(rows, options), dict(options)


def chunks_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Chunk]:
    """The chunks of an arranged DataFrame, as a task receives them."""
    for batch in batches:
        topics, partitions, records, contents = (batch.column(number) for number in range(4))
        for row in range(batch.num_rows):
            yield Chunk(
                topics[row].as_py(),
                partitions[row].as_py(),
                records[row].as_py(),
                memoryview(contents[row].as_buffer()),
            )


def _as_rows(chunks: Iterable[Chunk], writers: int) -> Iterator[pa.RecordBatch]:
    """Small chunks share an Arrow batch: handing one over costs as much as copying a hundred kilobytes."""
    together: list[Chunk] = []
    size = 0
    for chunk in chunks:
        together.append(chunk)
        size += len(chunk.content)
        if size >= _ROWS_BYTES:
            yield _rows_of(together, writers)
            together, size = [], 0
    if together:
        yield _rows_of(together, writers)


def _rows_of(chunks: list[Chunk], writers: int) -> pa.RecordBatch:
    import numpy as np
    import pyarrow as pa

    ends = np.cumsum([0, *(len(chunk.content) for chunk in chunks)], dtype=np.int32)
    content = chunks[0].content if len(chunks) == 1 else b"".join(chunk.content for chunk in chunks)
    arrays = [
        pa.array([chunk.topic for chunk in chunks], pa.string()),
        pa.array([chunk.partition for chunk in chunks], pa.int32()),
        pa.array([chunk.records for chunk in chunks], pa.int32()),
        pa.Array.from_buffers(pa.binary(), len(chunks), [None, pa.py_buffer(ends), pa.py_buffer(content)]),
        pa.array([(zlib.crc32(chunk.topic.encode()) + chunk.partition) % writers for chunk in chunks], pa.int32()),
    ]
    return pa.RecordBatch.from_arrays(arrays, names=ARRANGED_SCHEMA.fieldNames())


def _writer_count(frame: DataFrame, options: SinkOptions) -> int:
    side_by_side = frame.sparkSession.sparkContext.defaultParallelism
    if options.topic is None:
        return side_by_side
    with WireClient(options.wire_settings) as client:
        return min(side_by_side, partition_count(client, options.topic))


def _require_single_stage_attempts(frame: DataFrame) -> None:
    """Python tasks are told the number of their own attempt, but not that of their stage's.

    Where a stage is tried again on a cluster, tasks of both attempts may run, and could not know of each other.
    """
    conf = frame.sparkSession.sparkContext.getConf()
    if conf.get("spark.master", "").startswith("local"):
        return
    if conf.get("spark.stage.maxConsecutiveAttempts", "4") != "1":
        raise InvalidOption(
            "set spark.stage.maxConsecutiveAttempts to 1 when Spark starts: a batch that loses a stage has to be run "
            "again as a whole, in a transaction of its own"
        )


def _gathered(batches: Iterable[pa.RecordBatch], columns: list[str]) -> Iterator[pa.RecordBatch]:
    gathered: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        gathered.append(batch.select(columns))
        size += gathered[-1].nbytes
        if size >= _GATHERED_BYTES:
            yield from _joined(gathered)
            gathered, size = [], 0
    if gathered:
        yield from _joined(gathered)


def _joined(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    if len(batches) == 1:
        yield batches[0]
    else:
        yield from pa.Table.from_batches(batches).combine_chunks().to_batches()
