"""Failures that Spark reports itself: from its error conditions and texts to ours (`core/error_table.py`).

Spark begins a message with its condition in brackets, such as `[CAST_INVALID_INPUT]`; failures of Java and of older
parts of Spark have a text only. docs/errors.md shows this table, too.

Owns the table. It must not know Spark: a failure arrives as text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

_CONDITION: Final = re.compile(r"\[([A-Z][A-Z0-9_.]+)\]")


@dataclass(frozen=True, slots=True)
class SparkFailure:
    """`conditions` are patterns of names, `samples` parts of a message, as they are; one that occurs is enough.

    `line` is what a person is told. `{message}` in it is Spark's innermost message.
    """

    conditions: tuple[str, ...]
    samples: tuple[str, ...]
    condition: str
    line: str = "{message}"

    def matches(self, text: str) -> bool:
        named = set(_CONDITION.findall(text))
        return any(fnmatchcase(name, pattern) for name in named for pattern in self.conditions) or any(
            sample.lower() in text.lower() for sample in self.samples
        )


SPARK_ENDED: Final = SparkFailure(
    (),
    ("Py4JNetworkError", "Answer from Java side is empty", "SparkContext was shut down"),
    "PENSTOCK_ENGINE_LOST",
    "Spark has ended; run the pipeline again, it resumes from its last commit",
)
SPARK_FAILURES: Final = (
    SPARK_ENDED,
    SparkFailure(
        (),
        ("No space left on device", "ENOSPC", "Disk quota exceeded"),
        "PENSTOCK_DISK_FULL",
        "no space is left on the disk of the checkpoint, the state or a local sink; free some and run the pipeline"
        " again: it resumes from its last commit",
    ),
    SparkFailure(
        ("CONCURRENT_STREAM_LOG_UPDATE",),
        ("Multiple streaming queries are concurrently using",),
        "PENSTOCK_CHECKPOINT_SHARED",
        "another run of this pipeline uses the same checkpoint; this one stops",
    ),
    SparkFailure(
        (
            "STATE_STORE_*SCHEMA*",
            "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA*",
            "STREAM_STATE_*",
            "INVALID_STREAMING_CHECKPOINT*",
            "MISMATCHED_*CHECKPOINT*",
        ),
        ("sources in the checkpoint offsets and now there are",),
        "PENSTOCK_CHECKPOINT_MISMATCH",
        "the checkpoint does not fit this pipeline: {message}; undo the change, or start over with another"
        " --checkpoint",
    ),
    SparkFailure(
        (
            "ARITHMETIC_OVERFLOW*",
            "BINARY_ARITHMETIC_OVERFLOW*",
            "CANNOT_PARSE_TIMESTAMP*",
            "CAST_INVALID_INPUT",
            "CAST_OVERFLOW*",
            "DIVIDE_BY_ZERO",
            "DUPLICATED_MAP_KEY",
            "INVALID_ARRAY_INDEX*",
            "INVALID_INDEX_OF_ZERO",
            "NOT_NULL_ASSERT_VIOLATION*",
            "NUMERIC_VALUE_OUT_OF_RANGE*",
            "REMAINDER_BY_ZERO",
            "USER_RAISED_EXCEPTION",
        ),
        (),
        "PENSTOCK_EXPRESSION_FAILED",
    ),
    SparkFailure(
        (),
        ("Mkdirs failed to create",),
        "PENSTOCK_NOT_WRITABLE",
        # Java does not tell why.
        "a directory of the checkpoint or the state cannot be made: {message}; free some space (`df -i` counts files),"
        " or let the user of this pipeline write there",
    ),
    # Behind all others: it also wraps what fails for a row of a file.
    SparkFailure(("FAILED_READ_FILE*",), (), "PENSTOCK_FILE_UNREADABLE"),
)


def spark_failure(text: str) -> SparkFailure | None:
    """The entry for a failure of a query; None if Spark's own part in it is unknown."""
    return next((failure for failure in SPARK_FAILURES if failure.matches(text)), None)
