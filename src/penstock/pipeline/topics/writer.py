"""What Spark asks of the sink "penstock": `df.write` and `df.writeStream`.

Owns which way of writing keeps which guarantee:

- at_least_once: tasks produce on their own. A task, or a batch, that is run again repeats.
- at_most_once: the batch's id goes on record first, then tasks produce on their own. What is run again is skipped.
- exactly_once, arranged rows: tasks produce in one transaction, each the partitions that it owns.
- exactly_once, other rows: tasks hand their record batches over, and the commit produces them in one transaction.

Spark makes a writer in the process that plans a batch, pickles it for the tasks, and makes another one in the process
that commits a stream's batches. Only the first is ever pickled, and it is pickled for every batch, so that is the
moment at which a batch begins; the tasks' results bring what the commit has to know.

Invariant: making a writer does nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from penstock.core.errors import ClientError
from penstock.pipeline import crash_points
from penstock.pipeline.spark.internals import streaming_batch
from penstock.pipeline.topics import handed_over, task_output, transaction
from penstock.pipeline.topics.errors import BatchInterrupted, BatchNotBegun, InvalidOption, TopicSinkError
from penstock.pipeline.topics.row_encoding import Chunk, chunks_of, encoder_of_task
from penstock.pipeline.topics.sink_columns import input_columns, is_arranged
from penstock.pipeline.topics.sink_options import SinkOptions, read_sink_options, require_batches_topic
from penstock.pipeline.topics.task_output import TaskResult
from penstock.pipeline.topics.transaction import BatchAttempt
from penstock.protocol.error_codes import BrokerError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_NO_BATCH: Final = -1


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> TopicBatchWriter:
    if overwrite:
        raise InvalidOption("Save mode overwrite not allowed for topics: records are only ever added; use append")
    return TopicBatchWriter(read_sink_options(options), schema)


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> TopicStreamWriter:
    """`overwrite` is output mode complete: the whole result is added again with every batch, as Spark's sink does."""
    read = read_sink_options(options)
    if read.guarantee != "at_least_once":
        require_batches_topic(read)
    return TopicStreamWriter(read, schema)


class _TopicWriter(ABC):
    """What both writers have in common: how a batch begins, and what a task does."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._options = options
        self._is_arranged = is_arranged(schema)
        self._columns = [] if self._is_arranged else input_columns(schema, options.topic)
        self._attempt: BatchAttempt | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Spark pickles a writer twice for one batch, on its own and inside a function.
        if self._attempt is None:
            try:
                self._attempt = self._begin()
                if self._attempt is not None:
                    handed_over.forget_all(self._options)
            except (TopicSinkError, ClientError, BrokerError) as error:
                raise BatchNotBegun(error) from error
        return self.__dict__

    @abstractmethod
    def _begin(self) -> BatchAttempt | None: ...

    def _chunks(self, rows: Iterator[pa.RecordBatch]) -> Iterator[Chunk]:
        if self._is_arranged:
            return chunks_of(rows)
        return encoder_of_task(self._options, self._columns).encode(rows)

    def _produce(self, context: TaskContext, rows: Iterator[pa.RecordBatch], result: TaskResult) -> TaskResult:
        """With guarantee exactly_once, or with none to keep beyond this task."""
        if result.attempt is None or self._options.guarantee != "exactly_once":
            result.records = task_output.produce_directly(self._options, self._chunks(rows))
        elif self._is_arranged:
            task_output.require_first_attempt(context.attemptNumber(), self._options)
            try:
                result.records = task_output.produce_in_transaction(self._options, result.attempt, self._chunks(rows))
            except (TopicSinkError, ClientError, BrokerError) as error:
                result.failure = task_output.as_failure(error)
        else:
            result.handed_over = handed_over.hand_over(
                self._options, result.attempt.name, context.taskAttemptId(), self._chunks(rows)
            )
        return result

    def _complete(self, attempt: BatchAttempt, results: Sequence[TaskResult]) -> bool:
        """All tasks are done; produces what they handed over. Whether there is anything to commit."""
        if any(result.attempt is None or result.attempt.name != attempt.name for result in results):
            raise BatchInterrupted("tasks of two attempts at a batch came together; it can be run again")
        for result in results:
            if result.failure is not None:
                raise result.failure
        written = [partition for result in results for partition in result.records]
        if len(set(written)) != len(written):
            raise TopicSinkError(
                "two tasks have written to one partition in one transaction: write what repartition_by_target() returns"
                " as it is"
            )
        handed_over.require_little(sum(len(result.handed_over.content) for result in results))
        is_handed_over = any(result.handed_over.extents for result in results)
        if is_handed_over:
            task_output.produce_handed_over(self._options, attempt, results)
            handed_over.forget_attempt(self._options, attempt.name)
        return is_handed_over or bool(written)

    def _give_up(self, attempt: BatchAttempt) -> None:
        transaction.abort(self._options, attempt)
        handed_over.forget_attempt(self._options, attempt.name)


class TopicBatchWriter(_TopicWriter, DataSourceArrowWriter):
    """A batch query: one job, which is at most one transaction."""

    def _begin(self) -> BatchAttempt | None:
        return transaction.begin_job(self._options) if self._options.guarantee == "exactly_once" else None

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = _context()
        result = TaskResult(self._attempt)
        if self._options.guarantee == "at_most_once" and context.attemptNumber() > 0:
            return result
        return self._produce(context, iterator, result)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        crash_points.reached("topic.before_commit")
        if self._attempt is not None and self._complete(self._attempt, _results(messages)):
            transaction.commit_job(self._options, self._attempt)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._attempt is not None and any(map(_wrote, _results(messages))):
            self._give_up(self._attempt)


class TopicStreamWriter(_TopicWriter, DataSourceStreamArrowWriter):
    """A streaming query: every micro-batch has an id, and comes again with the same one after a crash."""

    def _begin(self) -> BatchAttempt | None:
        if self._options.guarantee == "at_least_once":
            return None
        return transaction.begin_stream_batch(self._options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = _context()
        query_id, batch_id = streaming_batch(context) or ("", _NO_BATCH)
        attempt = self._attempt
        result = TaskResult(attempt, query_id)
        if attempt is not None:
            if attempt.is_committed(query_id, batch_id):
                return result
            if self._options.guarantee == "at_most_once" and (
                context.attemptNumber() > 0
                or not transaction.record_before_writing(self._options, attempt, query_id, batch_id)
            ):
                return result
        return self._produce(context, iterator, result)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        crash_points.reached("topic.before_commit")
        results = _results(messages)
        attempt = results[0].attempt if results else None
        if self._options.guarantee != "exactly_once" or attempt is None:
            return
        query_id = results[0].query_id
        if not attempt.is_committed(query_id, batchId) and self._complete(attempt, results):
            transaction.commit_stream_batch(self._options, attempt, query_id, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        attempts = [result.attempt for result in _results(messages) if _wrote(result)]
        if self._options.guarantee == "exactly_once" and attempts and attempts[0] is not None:
            self._give_up(attempts[0])


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None
    return context


def _results(messages: Sequence[WriterCommitMessage | None]) -> list[TaskResult]:
    """A task that failed has none."""
    return [message for message in messages if isinstance(message, TaskResult)]


def _wrote(result: TaskResult) -> bool:
    return bool(result.records or result.handed_over.extents or result.failure)
