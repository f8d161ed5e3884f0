"""The commits of one request, from its partitions to what `offsets.py` takes, with the places of the answers.

OffsetCommit and TxnOffsetCommit say the same in messages of their own; this is what they share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Protocol

from penstock.coordinator.offsets import NO_EXPIRY, CommittedOffset
from penstock.core.acls import AclOperation
from penstock.core.ids import TopicId, TopicPartition
from penstock.metadata.config_definition import LONG_MAX
from penstock.metadata.topics import find_partition
from penstock.protocol.error_codes import BrokerError, ErrorCode

if TYPE_CHECKING:
    from penstock.broker.node import Node
    from penstock.broker.request_context import RequestContext
    from penstock.metadata.changes import TopicImage

BROKERS_RETENTION: Final = -1


def find_readable_partition(context: RequestContext, topic: str | TopicId, index: int) -> TopicImage:
    """A topic that the client may not read is refused before it is looked for."""
    image = context.node.image
    if context.access.is_restricted:
        named = topic if isinstance(topic, str) else None
        if named is None and topic in image.topics_by_id:
            named = image.topics_by_id[TopicId(topic)].name
        if named is not None:
            context.access.check_topic(AclOperation.READ, named)
    return find_partition(image, topic, index)


class AskedPartition(Protocol):
    """One partition's part of the request."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    committed_metadata: str | None


class CommitResult(Protocol):
    """One partition's place in the response."""

    error_code: int


class AskedCommits:
    def __init__(self, node: Node, retention_ms: int = BROKERS_RETENTION) -> None:
        now_ms = node.groups.now_ms()
        self.commits: dict[TopicPartition, CommittedOffset] = {}
        self._results: list[tuple[TopicPartition, CommitResult]] = []
        self._metadata_length_max = node.config.offset_metadata_max_bytes
        self._commit_timestamp_ms = now_ms
        # A client that means "for ever" may send the largest number there is, to which no time can be added.
        self._expire_timestamp_ms = (
            NO_EXPIRY if retention_ms == BROKERS_RETENTION else min(now_ms + retention_ms, LONG_MAX)
        )

    @property
    def is_empty(self) -> bool:
        return not self._results

    def add(self, asked: AskedPartition, result: CommitResult, find: Callable[[int], TopicImage]) -> None:
        """A partition that `find` does not find is refused by itself; so is metadata that is too long, unless the group
        refuses all."""
        try:
            topic = find(asked.partition_index)
        except BrokerError as error:
            result.error_code = error.code
            return
        metadata = asked.committed_metadata
        place = TopicPartition(topic.name, asked.partition_index)
        self._results.append((place, result))
        if metadata is not None and len(metadata) > self._metadata_length_max:
            result.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            return
        self.commits[place] = CommittedOffset(
            asked.committed_offset,
            asked.committed_leader_epoch,
            metadata or "",
            self._commit_timestamp_ms,
            topic.topic_id,
            self._expire_timestamp_ms,
        )

    def refuse(self, places: Iterable[TopicPartition], code: ErrorCode) -> None:
        refused = set(places)
        for place, result in self._results:
            if place in refused:
                result.error_code = code

    def refuse_all(self, code: ErrorCode) -> None:
        for _, result in self._results:
            result.error_code = code
