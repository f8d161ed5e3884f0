"""The way of records through converters and transforms in a task: a sink's from bytes to groups, a source's back.

Owns the order of the steps, and that each failure is decided by the connector's ErrorPolicy: it stops the task, is
skipped, or becomes a dead letter. It must not know positions or Spark.

Dead letters are acknowledged before the task has a result, so before the connector commits: they are at least once. A
job that is run again writes them again. For a source in a transaction they are records of that transaction.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from penstock.connect.converters.configured import Converters
from penstock.connect.data.assembly import by_topic, to_groups, to_originals, to_raw
from penstock.connect.data.records import Failure, RecordGroup
from penstock.connect.errors.policy import ErrorPolicy, Outcome
from penstock.connect.errors.retrying import Retrying, retried
from penstock.connect.errors.stage import SINK_TASK, Stage, StagedFailure
from penstock.connect.runtime.client_settings import ProducerSettings
from penstock.connect.runtime.topic_creation import TopicCreation
from penstock.connect.runtime.topic_writing import TopicEncoders, TopicWriter
from penstock.connect.transforms.chain import TransformChain
from penstock.pipeline.process_state import shared_client

logger = logging.getLogger(__name__)

WriteLetters = Callable[[str, pa.RecordBatch], None]
"""Takes the topic and the letters."""
_NO_RULES: Final = TopicCreation()
_LOG_LINES_MAX: Final = 1000  # of one task


@dataclass(frozen=True, slots=True)
class RecordSteps:
    """Picklable: made on the driver, used in tasks."""

    connector: str
    converters: Converters
    transforms: TransformChain
    errors: ErrorPolicy
    letters: ProducerSettings

    def of_sink(self, task: int) -> SinkSteps:
        return SinkSteps(self, task)

    def of_source(self, task: int, write: Callable[[str, pa.RecordBatch], None]) -> SourceSteps:
        return SourceSteps(self, task, write)


class _Steps:
    def __init__(self, steps: RecordSteps, task: int, write_letters: WriteLetters) -> None:
        self._steps = steps
        self._task = task
        self._write_letters = write_letters
        self._retrying = Retrying(steps.errors.retries)
        self._converters = retried(steps.converters, self._retrying)
        self.failed = 0
        self.log_lines: list[str] = []
        """For the worker's log (`errors.log.enable`), which tasks do not have."""

    def _transformed(self, groups: Sequence[RecordGroup]) -> tuple[list[RecordGroup], list[StagedFailure]]:
        results = [self._steps.transforms.apply(group, self._retrying) for group in groups]
        return (
            [each for result in results for each in result.groups],
            [failure for result in results for failure in result.failures],
        )

    def _decide(self, failures: Sequence[StagedFailure], originals: pa.RecordBatch) -> None:
        if not failures:
            return
        policy = self._steps.errors
        outcome = policy.decide(failures, originals, connector=self._steps.connector, task=self._task)
        if outcome.error is not None:
            for line in outcome.log_lines:
                logger.error("%s", line)
            self._write_last(outcome)
            raise outcome.error
        self.log_lines += outcome.log_lines[: _LOG_LINES_MAX - len(self.log_lines)]
        self.failed += outcome.skipped
        if outcome.dead_letters is not None and policy.dead_letter_topic is not None:
            self._write_letters(policy.dead_letter_topic, outcome.dead_letters)

    def _write_last(self, outcome: Outcome) -> None:
        """The letter of the record that stops the task. One of a source would be aborted with its transaction."""


class SinkSteps(_Steps):
    """Of one task. `finish` comes after the last batch."""

    def __init__(self, steps: RecordSteps, task: int) -> None:
        super().__init__(steps, task, self._write_letter)
        self._letters: TopicWriter | None = None

    def to_groups(self, batch: pa.RecordBatch) -> list[RecordGroup]:
        assembled = to_groups(batch, self._converters)
        groups, failures = self._transformed(assembled.groups)
        self._decide([*assembled.failures, *failures], batch)
        return groups

    def refused(self, batch: pa.RecordBatch, failures: Sequence[Failure]) -> None:
        """The sink's writer refused these (KIP-610)."""
        self._decide([StagedFailure(Stage.TASK_PUT, SINK_TASK, failure) for failure in failures], batch)

    def finish(self) -> int:
        """Returns how many records failed and were tolerated, when their letters are acknowledged."""
        if self._letters is not None:
            self._letters.flush()
        return self.failed

    def _write_last(self, outcome: Outcome) -> None:
        topic = self._steps.errors.dead_letter_topic
        if outcome.dead_letters is not None and topic is not None:
            self._write_letters(topic, outcome.dead_letters)
            self.finish()

    def _write_letter(self, topic: str, letters: pa.RecordBatch) -> None:
        if self._letters is None:
            settings = self._steps.letters
            client = shared_client(settings.wire)
            sender = client.sender(producer=client.init_producer_id(), timeout_s=settings.delivery_timeout_s)
            self._letters = TopicWriter(TopicEncoders(client, settings, _NO_RULES, self._task), sender)
        self._letters.write(topic, letters)


class SourceSteps(_Steps):
    """Of one task. Records and dead letters go to `write`, which takes a topic and its records."""

    def __init__(self, steps: RecordSteps, task: int, write: Callable[[str, pa.RecordBatch], None]) -> None:
        super().__init__(steps, task, write)
        self._write = write

    def to_topics(self, read: Sequence[RecordGroup]) -> list[str]:
        """Transforms, converts and writes records in the order of their `rows`. Returns the topics that got some."""
        groups, failures = self._transformed(read)
        raw = to_raw(groups, self._converters)
        if failures or raw.failures:
            self._decide([*failures, *raw.failures], to_originals(read, self._converters))
        if raw.records.num_rows == 0:
            return []
        topics = by_topic(raw.records)
        for topic, records in topics.items():
            self._write(topic, records)
        return list(topics)
