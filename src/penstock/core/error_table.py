"""Every error condition of Penstock: what it means, what to do, the exit code and when a pipeline tries again.

A condition is a stable name, such as `PENSTOCK_SINK_FENCED`. Classes may move and change their names; a condition never
does, because exit codes, retries and people's runbooks depend on it. docs/errors.md is derived from this table.

Owns the table. It must not know any error class: a class names its condition (`core/errors.py`).
`pipeline/spark/conditions.py` maps the conditions of Spark itself to these.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from penstock.core.exit_codes import ExitCode


class Retry(Enum):
    """When a pipeline runs the failed micro-batch again. The value is what docs/errors.md says."""

    NEVER = "no"
    A_FEW_TIMES = "a few times"
    UNTIL_IT_RETURNS = "until it returns"
    IF_CHECKPOINT_OWNED = "only while the checkpoint belongs to this run"


@dataclass(frozen=True, slots=True)
class ErrorEntry:
    """`meaning` and `remedy` are sentences for docs/errors.md.

    `exit_code` is that of a pipeline that ends with the error. `hint` is appended to the message of an error that does
    not say itself what to do.
    """

    condition: str
    meaning: str
    remedy: str
    exit_code: ExitCode = ExitCode.PIPELINE_FAILED
    retry: Retry = Retry.NEVER
    hint: str = ""


UNEXPECTED: Final = "PENSTOCK_UNEXPECTED"
BAD_ROW: Final = "PENSTOCK_BAD_ROW"
CLUSTER_UNAVAILABLE: Final = "PENSTOCK_CLUSTER_UNAVAILABLE"
ALREADY_RUNNING: Final = "PENSTOCK_ALREADY_RUNNING"
EXPRESSION_FAILED: Final = "PENSTOCK_EXPRESSION_FAILED"
FUNCTION_FAILED: Final = "PENSTOCK_FUNCTION_FAILED"

_PIPELINES: Final = (
    ErrorEntry(
        "PENSTOCK_INVALID_PIPELINE",
        "The pipeline file or program contains a mistake, or asks for something that a source or sink cannot do.",
        "Correct the line that the message names; `penstock validate` finds all mistakes without running the pipeline.",
        ExitCode.INVALID_PIPELINE,
    ),
    ErrorEntry(
        "PENSTOCK_INVALID_SQL",
        "Spark rejects the SQL of the pipeline: it does not parse, or a column or function does not exist.",
        "Correct the SQL at the line and position that the message names.",
        ExitCode.INVALID_SQL,
    ),
    ErrorEntry(
        "PENSTOCK_MISSING_REQUIREMENT",
        "A Python package or Java is not installed.",
        "Install it: `pip install 'penstock[spark]'` brings both.",
        ExitCode.MISSING_REQUIREMENT,
    ),
    ErrorEntry(
        "PENSTOCK_NOT_FOUND",
        "A topic, table or file that the pipeline reads does not exist.",
        "Create it, or correct its name.",
        ExitCode.NOT_FOUND,
    ),
    ErrorEntry(
        "PENSTOCK_CHECKPOINT_MISMATCH",
        "The checkpoint belongs to another pipeline, to an earlier form of this one, or is an older copy.",
        "Undo the change, restore the newest copy, or start over with another `--checkpoint`.",
        ExitCode.CHECKPOINT_MISMATCH,
    ),
    ErrorEntry(
        "PENSTOCK_DISK_FULL",
        "No space is left on the disk of the checkpoint, the state or a local sink.",
        "Free some space and run the pipeline again; it resumes from its last commit.",
        ExitCode.DISK_FULL,
    ),
    ErrorEntry(
        "PENSTOCK_ENGINE_LOST",
        "Spark, or the engine of `penstock up`, ended while the pipeline was running.",
        "Run the pipeline again; it resumes from its last commit.",
        ExitCode.ENGINE_LOST,
    ),
    ErrorEntry(
        CLUSTER_UNAVAILABLE,
        "The Spark cluster of `--master` cannot be reached, or does not accept the application.",
        "Check the URL, that the master runs, and that it has Penstock's Spark version.",
        ExitCode.ENGINE_LOST,
    ),
    ErrorEntry(
        ALREADY_RUNNING,
        "The engine keeps a pipeline of this name running (`penstock up DIRECTORY`, `penstock run --detach`).",
        "Follow it with `penstock logs -f NAME`, or stop it first with `penstock stop NAME`.",
        ExitCode.FENCED,
    ),
    ErrorEntry(
        "PENSTOCK_CHECKPOINT_SHARED",
        "Another run of the pipeline writes to the same checkpoint.",
        "Nothing: the run that started last continues, and the other one stops.",
        ExitCode.FENCED,
        Retry.IF_CHECKPOINT_OWNED,
    ),
    ErrorEntry(
        EXPRESSION_FAILED,
        "An expression of the transform fails for a row: a cast, a division by zero, an overflow. The message names the"
        " row's topic, partition and offset where the expression uses the columns of one source.",
        "Correct the row, use an expression that tolerates it, such as `try_cast`, or set `on_error` to `drop` or"
        " `{dead_letters: TOPIC}`. The micro-batch was not written.",
        hint="; nothing of its micro-batch was written: use an expression that tolerates it, such as try_cast, or set"
        " on_error to drop or {dead_letters: TOPIC}",
    ),
    ErrorEntry(
        FUNCTION_FAILED,
        "A Python function of yours that Spark calls for rows (a UDF) raised an exception. The message names file, line"
        " and function.",
        "Correct the function; the pipeline resumes from its last commit.",
    ),
    ErrorEntry(
        BAD_ROW,
        "A row does not parse or does not meet an expectation, and `on_error` is `stop`.",
        "Repair the source, or set `on_error` to `drop` or `{dead_letters: TOPIC}`. The micro-batch was not written.",
        hint="; nothing of its micro-batch was written: repair the source, or set on_error to drop or"
        " {dead_letters: TOPIC}",
    ),
    ErrorEntry(
        "PENSTOCK_PIPELINE_FAILED",
        "The pipeline failed, and no other condition describes the failure.",
        "Act on the message.",
    ),
    ErrorEntry(
        UNEXPECTED,
        "A failure that Penstock does not know: an exception of a sink's function, or an error of Spark.",
        "Act on the message. An exception of a function of yours is shown with its type.",
        retry=Retry.A_FEW_TIMES,
    ),
)
_SOURCES: Final = (
    ErrorEntry(
        "PENSTOCK_SOURCE_FAILED",
        "A topic cannot be read as the options ask.",
        "Act on the message.",
        retry=Retry.A_FEW_TIMES,
    ),
    ErrorEntry(
        "PENSTOCK_INVALID_OPTION",
        "An option of the source or sink `penstock` is missing, contradicts another one, or has an invalid value.",
        "Correct the option; docs/spark-source.md and docs/spark-sink.md list them.",
        ExitCode.INVALID_PIPELINE,
    ),
    ErrorEntry(
        "PENSTOCK_SOURCE_TOPIC_MISSING",
        "A topic or partition that the options name does not exist.",
        "Create it, or correct its name.",
        ExitCode.NOT_FOUND,
    ),
    ErrorEntry(
        "PENSTOCK_DATA_LOSS",
        "Records that should have been read next are gone: the topic was deleted, or retention removed them.",
        "Start over with another `--checkpoint`, or set the option `failOnDataLoss` to false to skip what is lost."
        " Raise `retention.ms` if pipelines stop for longer than the topic keeps records.",
        ExitCode.SOURCE_LOST,
        hint="; to start over with the records that are left, name another directory with --checkpoint",
    ),
    ErrorEntry(
        "PENSTOCK_FILE_UNREADABLE",
        "A file of the source cannot be read: it is not of the declared format, damaged, or may not be read.",
        "Repair or remove the file that the message names; the pipeline resumes from its last commit.",
        retry=Retry.A_FEW_TIMES,
    ),
    ErrorEntry(
        "PENSTOCK_SOURCE_LOST",
        "A topic of the pipeline was deleted and created again; records that were not read yet are lost.",
        "Start over with another `--checkpoint` to read the new topic from its beginning.",
        ExitCode.SOURCE_LOST,
    ),
)
_SINKS: Final = (
    ErrorEntry(
        "PENSTOCK_SINK_REFUSED",
        "The table, topic or directory does not fit what the pipeline writes to it.",
        "Change the sink or the pipeline as the message says; the pipeline resumes from its last commit.",
        ExitCode.SINK_REFUSED,
    ),
    ErrorEntry(
        "PENSTOCK_SINK_FAILED",
        "Rows cannot be written to the sink.",
        "Act on the message.",
        retry=Retry.A_FEW_TIMES,
    ),
    ErrorEntry(
        "PENSTOCK_SINK_FENCED",
        "Another run of the pipeline has taken over; this one stops.",
        "Nothing, if you started the other run. Otherwise find it: two runs of one pipeline fence each other.",
        ExitCode.FENCED,
    ),
    ErrorEntry(
        "PENSTOCK_BATCH_INTERRUPTED",
        "The transaction of a micro-batch was aborted: a task failed, or a broker or the transaction timed out.",
        "Nothing; the batch runs again under a new producer epoch. If it keeps failing, the batch takes longer than"
        " `transaction.timeout.ms`: lower `max_offsets_per_trigger`.",
        retry=Retry.A_FEW_TIMES,
    ),
    ErrorEntry(
        "PENSTOCK_DATABASE_UNAVAILABLE",
        "The database does not answer, closed the connection, or stayed locked for too long.",
        "Bring the database back; the pipeline waits for it. With `--once` it gives up after a few attempts.",
        ExitCode.UNREACHABLE,
        Retry.UNTIL_IT_RETURNS,
    ),
    ErrorEntry(
        "PENSTOCK_STAGING_LOST",
        "Rows that tasks had staged in the database are gone, for example because the server restarted.",
        "Nothing; the batch runs again.",
        retry=Retry.UNTIL_IT_RETURNS,
    ),
    ErrorEntry(
        "PENSTOCK_DATABASE_FULL",
        "No space is left where the database writes.",
        "Free some space on the database's disk and run the pipeline again; it resumes from its last commit.",
        ExitCode.DISK_FULL,
    ),
    ErrorEntry(
        "PENSTOCK_NOT_WRITABLE",
        "A directory of a files sink, a SQLite database or the checkpoint cannot be written: its path is a file, its"
        " directory does not exist, it is read-only, or the user may not write there.",
        "Correct the path or its permissions, as the message says, and run the pipeline again; it resumes from its last"
        " commit.",
        ExitCode.NOT_WRITABLE,
    ),
    ErrorEntry(
        "PENSTOCK_RECORD_TOO_LARGE",
        "A record is larger than `max.message.bytes` of its topic. The same record is refused again.",
        "Raise `max.message.bytes` of the topic with `penstock topic alter`, or filter such rows in the transform.",
        ExitCode.SINK_REFUSED,
        hint="; raise it with penstock topic alter TOPIC --config max.message.bytes=BYTES, or filter such rows in the"
        " transform",
    ),
)
_CLIENTS: Final = (
    ErrorEntry(
        "PENSTOCK_BROKER_UNREACHABLE",
        "No broker answered: none listens at the address, the name does not resolve, or the request timed out.",
        "Check `bootstrap.servers` and that the broker runs. A running pipeline waits until the broker returns; with"
        " `--once` it gives up after a few attempts.",
        ExitCode.UNREACHABLE,
        Retry.UNTIL_IT_RETURNS,
    ),
    ErrorEntry(
        "PENSTOCK_BROKER_REFUSED",
        "A broker answered with an error code of the Kafka protocol; the message names it.",
        "Act on the message.",
        retry=Retry.A_FEW_TIMES,
    ),
    ErrorEntry(
        "PENSTOCK_ACCESS_DENIED",
        "A broker or a database refuses the user, the password, the TLS connection or the operation.",
        "Check the credentials and what the user is allowed to do.",
        ExitCode.ACCESS_DENIED,
    ),
    ErrorEntry(
        "PENSTOCK_PROTOCOL_VIOLATION",
        "The other side sent bytes that are not the Kafka protocol.",
        "Check that the address is a Kafka listener and that `security.protocol` matches it.",
        retry=Retry.A_FEW_TIMES,
    ),
    ErrorEntry(
        "PENSTOCK_CLIENT_FAILED",
        "A Kafka client failed in another way.",
        "Act on the message.",
        retry=Retry.A_FEW_TIMES,
    ),
    ErrorEntry(
        "PENSTOCK_UNKNOWN_TOPIC",
        "A topic or partition does not exist, or no longer exists.",
        "Create it, or correct its name.",
        ExitCode.SOURCE_LOST,
    ),
    ErrorEntry(
        "PENSTOCK_TOPIC_EXISTS",
        "A topic of this name exists already.",
        "Use it, or choose another name.",
        retry=Retry.A_FEW_TIMES,
    ),
    ErrorEntry(
        "PENSTOCK_UNKNOWN_GROUP",
        "No consumer group has this name.",
        "Correct the name; `penstock group list` shows all of them.",
        retry=Retry.A_FEW_TIMES,
    ),
    ErrorEntry(
        "PENSTOCK_GROUP_NOT_EMPTY",
        "The consumer group has active members, and the operation requires an empty one.",
        "Stop the group's consumers first.",
        retry=Retry.A_FEW_TIMES,
    ),
    ErrorEntry(
        "PENSTOCK_OFFSETS_MIRRORED",
        "The positions of the consumer group are kept in a database or a checkpoint; its committed offsets are a copy.",
        "Use `penstock group reset-offsets --store URL`, or another `--checkpoint` for a pipeline.",
        retry=Retry.A_FEW_TIMES,
    ),
    ErrorEntry(
        "PENSTOCK_COORDINATOR_LOADING",
        "The coordinator of the consumer group is still loading its state, as after a restart of the broker.",
        "Try again in a moment.",
        ExitCode.UNREACHABLE,
        Retry.UNTIL_IT_RETURNS,
    ),
    ErrorEntry(
        "PENSTOCK_INVALID_CLIENT_SETTING",
        "A client setting does not exist, or has an invalid value.",
        "Correct the setting that the message names.",
        ExitCode.INVALID_PIPELINE,
    ),
    ErrorEntry(
        "PENSTOCK_BUFFER_FULL",
        "`buffer.memory` stayed full for `max.block.ms`: records are sent faster than the broker takes them.",
        "Send more slowly, or raise `buffer.memory`.",
        retry=Retry.A_FEW_TIMES,
    ),
    ErrorEntry(
        "PENSTOCK_SERIALIZATION_FAILED",
        "A key or value could not be serialized; nothing was sent.",
        "Correct the record or the serializer.",
        retry=Retry.A_FEW_TIMES,
    ),
    ErrorEntry(
        "PENSTOCK_DESERIALIZATION_FAILED",
        "A key or value could not be deserialized. The consumer's position stays before the record.",
        "Correct the deserializer, or `seek` past the record.",
        retry=Retry.A_FEW_TIMES,
    ),
    ErrorEntry(
        "PENSTOCK_NO_OFFSET",
        "A partition has no position, and `auto.offset.reset` is `none`.",
        "`seek` to a position, or set `auto.offset.reset`.",
        retry=Retry.A_FEW_TIMES,
    ),
    ErrorEntry(
        "PENSTOCK_NO_ASSIGNMENT",
        "A consumer joined its group, and the group assigned no partitions in time.",
        "Find the member that does not rejoin, with `penstock group describe GROUP --members`, and run again.",
        retry=Retry.A_FEW_TIMES,
    ),
    ErrorEntry(
        "PENSTOCK_COMMIT_REFUSED",
        "The group has rebalanced, and the partitions belong to another member. Nothing was committed.",
        "Poll again: the consumer rejoins the group.",
        retry=Retry.A_FEW_TIMES,
    ),
    ErrorEntry(
        "PENSTOCK_TRANSACTION_ABORTED",
        "The transaction cannot commit.",
        "Abort it and run it again.",
        retry=Retry.A_FEW_TIMES,
    ),
    ErrorEntry(
        "PENSTOCK_TRANSACTION_OUTCOME_UNKNOWN",
        "The broker did not answer a commit in time, so its outcome is unknown.",
        "Start a new producer with the same `transactional.id`; it settles the transaction either way.",
        retry=Retry.A_FEW_TIMES,
    ),
    ErrorEntry(
        "PENSTOCK_PRODUCER_FENCED",
        "Another producer with the same `transactional.id` has taken over; this one cannot continue.",
        "Close the producer. Use one `transactional.id` for each producer.",
        retry=Retry.A_FEW_TIMES,
    ),
)
SECTIONS: Final = {
    "Pipelines": _PIPELINES,
    "Sources": _SOURCES,
    "Sinks": _SINKS,
    "Brokers and clients": _CLIENTS,
}
ERRORS: Final = {entry.condition: entry for section in SECTIONS.values() for entry in section}

CONDITION_BY_EXIT_CODE: Final = {
    ExitCode.UNREACHABLE: "PENSTOCK_BROKER_UNREACHABLE",
    ExitCode.NOT_FOUND: "PENSTOCK_NOT_FOUND",
    ExitCode.INVALID_PIPELINE: "PENSTOCK_INVALID_PIPELINE",
    ExitCode.INVALID_SQL: "PENSTOCK_INVALID_SQL",
    ExitCode.MISSING_REQUIREMENT: "PENSTOCK_MISSING_REQUIREMENT",
    ExitCode.ACCESS_DENIED: "PENSTOCK_ACCESS_DENIED",
    ExitCode.SOURCE_LOST: "PENSTOCK_SOURCE_LOST",
    ExitCode.SINK_REFUSED: "PENSTOCK_SINK_REFUSED",
    ExitCode.CHECKPOINT_MISMATCH: "PENSTOCK_CHECKPOINT_MISMATCH",
    ExitCode.FENCED: "PENSTOCK_SINK_FENCED",
    ExitCode.DISK_FULL: "PENSTOCK_DISK_FULL",
    ExitCode.ENGINE_LOST: "PENSTOCK_ENGINE_LOST",
    ExitCode.PIPELINE_FAILED: "PENSTOCK_PIPELINE_FAILED",
    ExitCode.NOT_WRITABLE: "PENSTOCK_NOT_WRITABLE",
}
"""The condition of a refusal before or during a run, which its raiser describes by an exit code."""
