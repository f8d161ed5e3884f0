"""Sinks that are given every micro-batch as a DataFrame: what they have in common.

Owns the order inside a batch: an at_most_once sink records the batch before anything happens; dead letters are
published before the good rows are written, so that no row is ever written whose batch has lost its dead letters.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.core.guarantee import Guarantee
from penstock.pipeline import crash_points
from penstock.pipeline.checkpoint import Checkpoint
from penstock.pipeline.rows.dead_letters import DEAD_LETTER
from penstock.pipeline.sinks.dead_letter_publication import DeadLetterPublication
from penstock.pipeline.sinks.sink_writer import SinkStart, SinkWriter, WriterFactory
from penstock.wire.client import WIRE_SETTING_NAMES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BatchFunction = Callable[["DataFrame", int], None]


class BatchSinkWriter(SinkWriter):
    def prepare(self, start: SinkStart) -> WriterFactory:
        publish = _dead_letter_publication(start)
        handle = _guarded(self.batch_writer(start), start.spec.guarantee, start.checkpoint, publish)
        return lambda: start.rows.writeStream.foreachBatch(handle)

    @abstractmethod
    def batch_writer(self, start: SinkStart) -> BatchFunction:
        """Writes the good rows of one micro-batch; called as (rows, batch_id)."""


def _dead_letter_publication(start: SinkStart) -> BatchFunction | None:
    spec = start.spec
    if spec.dead_letter_topic is None or DEAD_LETTER not in start.rows.columns:
        return None
    given = start.brokers.of_dead_letters(spec)
    settings = {name: value for name, value in given.items() if name in WIRE_SETTING_NAMES}
    return DeadLetterPublication(spec.name, spec.dead_letter_topic, settings, start.checkpoint_id, spec.guarantee)


def _guarded(
    write: BatchFunction,
    guarantee: Guarantee,
    checkpoint: Checkpoint,
    publish_dead_letters: BatchFunction | None,
) -> BatchFunction:
    """For `foreachBatch`: `write` and, around it, what keeps the guarantee."""

    def handle(rows: DataFrame, batch_id: int) -> None:
        if guarantee == "at_most_once":
            if batch_id <= checkpoint.last_begun():
                return
            checkpoint.begin(batch_id)
        crash_points.reached("batch.before_write")
        if publish_dead_letters is None:
            write(rows, batch_id)
        else:
            # Both halves come from the same rows, which are read and parsed once.
            kept = rows.persist()
            try:
                publish_dead_letters(kept.where(f"{DEAD_LETTER} IS NOT NULL"), batch_id)
                crash_points.reached("batch.dead_letters_published")
                write(kept.where(f"{DEAD_LETTER} IS NULL").drop(DEAD_LETTER), batch_id)
            finally:
                kept.unpersist()
        crash_points.reached("batch.written")

    return handle
