"""Errors of the Spark source and sink `penstock`.

Each names its condition of `core/error_table.py`, which decides what the supervisor of a pipeline does.

Invariant: `str(error)` is one line that a person can act upon. It never holds the value of a `kafka.*` option.
"""

from __future__ import annotations

import pickle

from penstock.core.errors import PenstockError, marker


class TopicSourceError(PenstockError):
    """A topic cannot be read, or not as the options ask."""

    condition = "PENSTOCK_SOURCE_FAILED"


class InvalidOption(TopicSourceError):
    """An option is missing, contradicts another one, or has an invalid value."""

    condition = "PENSTOCK_INVALID_OPTION"


class UnknownTopicError(TopicSourceError):
    """The cluster has no topic or partition that the options name."""

    condition = "PENSTOCK_SOURCE_TOPIC_MISSING"


class UnknownOffsetError(TopicSourceError):
    """The checkpoint holds an offset that this source did not write."""

    condition = "PENSTOCK_CHECKPOINT_MISMATCH"


class DataLossError(TopicSourceError):
    """Records that should have been read no longer exist, and `failOnDataLoss` is true."""

    condition = "PENSTOCK_DATA_LOSS"

    @property
    def summary(self) -> str:
        return str(self.args[0])

    def __str__(self) -> str:
        return (
            f"{self.summary}. To continue with the records that are left, set the option failOnDataLoss to false; to"
            " start over, start the query with another checkpointLocation"
        )


class TopicSinkError(PenstockError):
    """Rows cannot be written to a topic, or not as the options ask."""

    condition = "PENSTOCK_SINK_FAILED"


class RecordTooLarge(TopicSinkError):
    """A record does not fit into its topic. It is refused whenever it is sent."""

    condition = "PENSTOCK_RECORD_TOO_LARGE"

    @property
    def summary(self) -> str:
        return str(self.args[0])

    def __str__(self) -> str:
        return f"{self.summary}{self.entry.hint}"


class Fenced(TopicSinkError):
    """Another run writes under this transactional id. This one stops for good."""

    condition = "PENSTOCK_SINK_FENCED"


class BatchInterrupted(TopicSinkError):
    """The batch's transaction was aborted. Run the batch again; it takes a new epoch."""

    condition = "PENSTOCK_BATCH_INTERRUPTED"


class BatchNotBegun(pickle.PicklingError):
    """Carries another error out of the pickling of a writer: Spark replaces every other exception there.

    The text is the marker of the error inside.
    """

    def __init__(self, error: PenstockError) -> None:
        super().__init__(marker(error))
