"""What becomes of a query whose records are gone: it stops, or it says so once and goes on from what is there.

Owns the words. `failOnDataLoss` decides which of the two.
"""

from __future__ import annotations

import logging

from penstock.core.ids import TopicPartition
from penstock.pipeline.topics.errors import DataLossError

logger = logging.getLogger(__name__)


class DataLossPolicy:
    def __init__(self, fail: bool) -> None:
        self._fail = fail
        self._said: set[str] = set()

    def gone(self, partition: TopicPartition, offset: int) -> None:
        self._report(
            f"{partition} is gone; the query had read it up to offset "
            f"{offset}, and records behind that may have been missed"
        )

    def aged_out(self, partition: TopicPartition, offset: int, earliest: int) -> None:
        self._report(
            f"{partition}: offset {offset} was to be read next, but the "
            f"earliest that is left is {earliest}; {earliest - offset} offsets were deleted before they were read"
        )

    def shrunk(self, partition: TopicPartition, offset: int, latest: int) -> None:
        self._report(
            f"{partition}: offset {offset} was to be read next, but the "
            f"partition ends at {latest} now; the topic was deleted and created again, or its log was cut, and records "
            "may have been missed"
        )

    def recreated(self, partition: TopicPartition, offset: int) -> None:
        self._report(
            f"topic '{partition.topic}' was deleted and created again while the query was reading it; records of the "
            f"old partition {partition.partition} behind offset {offset} may have been missed"
        )

    def began_late(self, partition: TopicPartition, earliest: int) -> None:
        self._report(
            f"{partition} is new to this query and starts at offset "
            f"{earliest} instead of 0; records before that may have been missed"
        )

    def ends_early(self, partition: TopicPartition, offset: int, latest: int) -> None:
        self._report(f"{partition}: the ending offset is {offset}, but the partition ends at {latest}")

    def _report(self, what: str) -> None:
        if self._fail:
            raise DataLossError(
                f"{what}. To go on with the records that are there, set the option failOnDataLoss to false; to begin "
                "anew, start the query with another checkpointLocation"
            )
        if what not in self._said:
            self._said.add(what)
            logger.warning("%s; going on with the records that are there, because failOnDataLoss is false", what)
