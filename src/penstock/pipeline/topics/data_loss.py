"""What a query does when records that it should read are gone: `failOnDataLoss` decides.

It fails with a DataLossError, or logs a warning, once for each loss, and continues with the records that are left. Owns
the messages.
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
            raise DataLossError(what)
        if what not in self._said:
            self._said.add(what)
            logger.warning("%s; continuing with the records that are left, because failOnDataLoss is false", what)
