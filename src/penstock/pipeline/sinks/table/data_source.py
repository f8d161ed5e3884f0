"""The Spark data source `penstock_table`: a stream's rows into a table, with the pipeline's guarantee.

    target = TableTarget(url=..., table=..., mode="upsert", key=("customer",), pipeline="revenue", run=uuid4().hex)
    prepare(target, df.schema)                              # every start of the query: creates or refuses
    claim(target, df.schema)                                # once in a run
    spark.dataSource.register(PenstockTable)
    df.writeStream.format("penstock_table").options(**target.options())...

Owns the calls of Spark. For each batch Spark makes a writer in one process, pickles it for the tasks, and makes another
one in another process to commit. So an attempt of a batch begins when the writer is pickled, and the tasks' messages
carry everything that the commit needs. It must never know a database.

Guarantees:
- exactly_once: tasks stage; the commit moves the rows and records the batch in one transaction.
- at_least_once: each task writes its rows in a transaction of its own; a replayed batch is written again.
- at_most_once: tasks stage; the commit records the batch, then moves the rows. A replayed batch writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from penstock.pipeline import crash_points
from penstock.pipeline.sinks.table.column_types import columns_of
from penstock.pipeline.sinks.table.connections import forget, trying_again
from penstock.pipeline.sinks.table.dead_letter_relay import relay
from penstock.pipeline.sinks.table.errors import TableSinkError
from penstock.pipeline.sinks.table.ledger import LedgerRow
from penstock.pipeline.sinks.table.preparation import table_store
from penstock.pipeline.sinks.table.target import TableTarget
from penstock.pipeline.sinks.table.task_output import TaskOutput
from penstock.pipeline.spark.internals import streaming_batch

FORMAT: Final = "penstock_table"


class PenstockTable(DataSource):
    @classmethod
    def name(cls) -> str:
        return FORMAT

    def streamWriter(self, schema: StructType, overwrite: bool) -> TableWriter:  # noqa: N802 (Spark's name)
        return TableWriter(TableTarget.from_options(self.options), schema)


class TableWriter(DataSourceStreamArrowWriter):
    def __init__(self, target: TableTarget, schema: StructType) -> None:
        """Nothing happens here: Spark makes a writer also before each commit."""
        self._target = target
        self._schema = schema
        self._begun: LedgerRow | None = None
        self._attempt = ""

    def __getstate__(self) -> dict[str, Any]:
        """Spark is about to run the tasks. It pickles the writer twice, both times for one attempt of the batch."""
        if self._begun is None:
            store = table_store(self._target, columns_of(self._schema, self._target.json_columns))
            self._begun = trying_again(self._target, store.ledger.read)
            self._attempt = uuid4().hex[:12]
        return self.__dict__

    # In a task

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        assert self._begun is not None
        batch = streaming_batch(context)
        assert batch is not None
        query_id, batch_id = batch
        output = TaskOutput(self._attempt, query_id, context.taskAttemptId())
        store = table_store(self._target, columns_of(self._schema, self._target.json_columns))
        try:
            if self._target.guarantee != "at_least_once" and self._begun.holds(query_id, batch_id):
                for _ in iterator:  # Spark waits until all rows are consumed
                    pass
                return output
            store.stage(output, iterator)
            if self._target.guarantee == "at_least_once":
                store.write_at_least_once(output, batch_id)
        except BaseException as failure:
            forget(self._target)  # a transaction may still be open on the connection
            if isinstance(failure, TableSinkError) and not failure.may_pass:
                # A run that takes over removes our staging; then the reason is Fenced, whatever the error here says.
                trying_again(self._target, store.ledger.read)
            raise
        return output

    # In the process of commits

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        outputs = [message for message in messages if isinstance(message, TaskOutput)]
        if not outputs:
            return  # without tasks there are no rows, and nothing to repeat
        store = table_store(self._target, columns_of(self._schema, self._target.json_columns))
        crash_points.reached("table.before_commit")
        if self._target.guarantee == "exactly_once":
            store.commit_once(outputs, batchId)
        elif self._target.guarantee == "at_most_once":
            store.commit_at_most_once(outputs, batchId)
        store.discard(outputs)
        # A run may have committed a batch, which is skipped now, and died before it published the dead letters.
        if self._target.dead_letters is not None and (
            any(output.dead.rows for output in outputs) or not any(output.rows.rows for output in outputs)
        ):
            trying_again(self._target, lambda database: relay(self._target, database))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        outputs = [message for message in messages if isinstance(message, TaskOutput)]
        table_store(self._target, columns_of(self._schema, self._target.json_columns)).abandon(outputs)
