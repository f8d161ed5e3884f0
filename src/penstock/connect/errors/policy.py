"""What happens to records that failed: the task stops, or they are skipped, logged and kept as dead letters.

KIP-298 for converters and transforms, KIP-610 for records that a sink refuses. Sources have dead letters too, with the
same properties, which Kafka Connect does not offer.

Owns the decision. It does no I/O: the runtime writes the dead letters, in the transaction of the good records where it
can, and logs the lines. It must not know how records were converted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import pyarrow as pa

from penstock.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, Width
from penstock.connect.config.parsing import one_of, parse
from penstock.connect.errors.dead_letters import dead_letters, places_of, where
from penstock.connect.errors.retries import RetryPolicy
from penstock.connect.errors.stage import StagedFailure
from penstock.connect.errors.tolerance import TOLERANCE, ToleranceExceeded

Tolerance = Literal["none", "all"]

RETRY_TIMEOUT: Final = "errors.retry.timeout"
RETRY_DELAY_MAX: Final = "errors.retry.delay.max.ms"
LOG_ENABLE: Final = "errors.log.enable"
LOG_INCLUDE_MESSAGES: Final = "errors.log.include.messages"
DLQ_TOPIC_NAME: Final = "errors.deadletterqueue.topic.name"
DLQ_REPLICATION_FACTOR: Final = "errors.deadletterqueue.topic.replication.factor"
DLQ_CONTEXT_HEADERS: Final = "errors.deadletterqueue.context.headers.enable"

_GROUP: Final = "Error Handling"


def _key(
    name: str, kind: ConfigType, default: object, order: int, width: Width, display_name: str, doc: str
) -> ConfigKey:
    return ConfigKey(
        name,
        kind,
        default,
        Importance.MEDIUM,
        doc,
        validator=one_of("none", "all") if name == TOLERANCE else None,
        group=_GROUP,
        order_in_group=order,
        width=width,
        display_name=display_name,
    )


DEFINITION: Final = ConfigDef(
    (
        _key(
            *(RETRY_TIMEOUT, ConfigType.LONG, 0, 1, Width.MEDIUM, "Retry Timeout"),
            "How long a failed operation is retried, in milliseconds; 0: not at all, -1: without end.",
        ),
        _key(
            *(RETRY_DELAY_MAX, ConfigType.LONG, 60_000, 2, Width.MEDIUM, "Longest Retry Delay"),
            "The longest pause between two tries, in milliseconds; pauses of this length vary at random.",
        ),
        _key(
            *(TOLERANCE, ConfigType.STRING, "none", 3, Width.SHORT, "Error Tolerance"),
            "'none': the first record that fails stops the task. 'all': records that fail are skipped.",
        ),
        _key(
            *(LOG_ENABLE, ConfigType.BOOLEAN, False, 4, Width.SHORT, "Log Errors"),
            "Whether the log has a line for each record that fails.",
        ),
        _key(
            *(LOG_INCLUDE_MESSAGES, ConfigType.BOOLEAN, False, 5, Width.SHORT, "Log Error Details"),
            "Whether these lines show the record: its place in the topic, or key and value of a source's record.",
        ),
        _key(
            *(DLQ_TOPIC_NAME, ConfigType.STRING, "", 6, Width.MEDIUM, "Dead Letter Topic"),
            "The topic for records that are skipped; empty: they are not kept.",
        ),
        _key(
            DLQ_REPLICATION_FACTOR,
            *(ConfigType.SHORT, 3, 7, Width.MEDIUM, "Dead Letter Replication Factor"),
            "How many replicas the dead letter topic gets if the connector creates it.",
        ),
        _key(
            *(DLQ_CONTEXT_HEADERS, ConfigType.BOOLEAN, False, 8, Width.MEDIUM, "Error Context Headers"),
            "Whether dead letters have headers, named __connect.errors.*, that tell why and where the record failed.",
        ),
    )
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """`dead_letters` are to be written to the policy's topic (None: there are none): columns `key`, `value`, `headers`,
    `timestamp`, for ColumnEncoder. `error`: the task fails with it after that."""

    error: ToleranceExceeded | None = None
    dead_letters: pa.RecordBatch | None = None
    log_lines: Sequence[str] = ()
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class ErrorPolicy:
    """Picklable. `dead_letter_topic` is None where no letters are wanted."""

    tolerance: Tolerance = "none"
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    logs_errors: bool = False
    logs_records: bool = False
    dead_letter_topic: str | None = None
    dead_letter_replication_factor: int = 3
    context_headers: bool = False

    @classmethod
    def of(cls, config: Mapping[str, str]) -> ErrorPolicy:
        """Raises ConfigException."""
        values = parse(DEFINITION, config)
        return cls(
            tolerance=values[TOLERANCE],
            retries=RetryPolicy(values[RETRY_TIMEOUT], values[RETRY_DELAY_MAX]),
            logs_errors=values[LOG_ENABLE],
            logs_records=values[LOG_INCLUDE_MESSAGES],
            dead_letter_topic=values[DLQ_TOPIC_NAME].strip() or None,
            dead_letter_replication_factor=values[DLQ_REPLICATION_FACTOR],
            context_headers=values[DLQ_CONTEXT_HEADERS],
        )

    def decide(
        self, failures: Sequence[StagedFailure], originals: pa.RecordBatch, *, connector: str, task: int
    ) -> Outcome:
        """`originals` are the raw records that failed, among others: for a sink the batch that was read, whose rows the
        failures count (columns of `penstock.columns.decoding`); for a source `assembly.to_originals`."""
        places = places_of(originals)
        pairs = [(places(int(row)), failed) for failed in failures for row in failed.failure.rows]
        ordered = sorted(pairs, key=lambda pair: pair[0])
        if not ordered:
            return Outcome()
        if self.tolerance == "none":
            ordered = ordered[:1]
        logged = ordered if self.logs_errors else []
        lines = [self._line(failed, originals, row, f"{connector}-{task}") for row, failed in logged]
        letters = None
        if self.dead_letter_topic is not None:
            letters = dead_letters(ordered, originals, connector, task, context_headers=self.context_headers)
        if self.tolerance == "none":
            row, first = ordered[0]
            return Outcome(ToleranceExceeded(first, where(originals, row)), letters, lines)
        return Outcome(None, letters, lines, len(ordered))

    def _line(self, failed: StagedFailure, originals: pa.RecordBatch, row: int, task_id: str) -> str:
        shown = where(originals, row, as_record=True) if self.logs_records else ""
        return (
            f"Error encountered in task {task_id}. Executing stage '{failed.stage.value}' with class"
            f" '{failed.executing_class}'{shown}. {failed.failure.java_class}: {failed.failure.message}"
        )
