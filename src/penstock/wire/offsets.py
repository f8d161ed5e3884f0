"""Lists offsets of partitions, and fetches and commits offsets of a group without joining it.

It must never know records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

from penstock.core.ids import OffsetAndMetadata, TopicPartition
from penstock.core.isolation import ISOLATION_LEVELS, IsolationLevel
from penstock.protocol.definitions.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from penstock.protocol.definitions.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from penstock.protocol.definitions.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from penstock.protocol.schema import Message
from penstock.wire.cluster import Cluster, Leader, PartitionResult
from penstock.wire.connection import Connection
from penstock.wire.errors import Right, require_success

OffsetAt = Literal["earliest", "latest"] | int
"""The earliest offset, the end offset, or the offset of the first record at or after a timestamp in ms."""

_TIMESTAMPS: Final[Mapping[str, int]] = {"latest": -1, "earliest": -2}
_NO_OFFSET: Final = -1
# Version 10 identifies topics by their ids; this client uses names.
_BY_NAME_UNTIL: Final = 9
_MANY_GROUPS_SINCE: Final = 8


class ListedOffset(NamedTuple):
    """`offset` is -1 if no record is at or after the requested timestamp."""

    offset: int
    timestamp: int
    leader_epoch: int


def list_offsets(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, OffsetAt],
    isolation_level: IsolationLevel,
    timeout_s: float | None,
) -> dict[TopicPartition, ListedOffset]:
    def build(connection: Connection, leaders: Mapping[TopicPartition, Leader]) -> tuple[Message, int]:
        topics: dict[str, ListOffsetsTopic] = {}
        for partition, leader in leaders.items():
            at = wanted[partition]
            topics.setdefault(partition.topic, ListOffsetsTopic(name=partition.topic)).partitions.append(
                ListOffsetsPartition(
                    partition_index=partition.partition,
                    current_leader_epoch=leader.epoch,
                    timestamp=_TIMESTAMPS[at] if isinstance(at, str) else at,
                )
            )
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=ISOLATION_LEVELS[isolation_level],
            topics=list(topics.values()),
            timeout_ms=cluster.settings.times_ms["request.timeout.ms"],
        )
        return request, connection.version_for(ListOffsetsRequest, at_least=2)

    return cluster.ask_leaders("offsets of partitions", wanted, build, _listed, timeout_s)


def _listed(response: ListOffsetsResponse) -> Iterator[PartitionResult]:
    for topic in response.topics:
        for answer in topic.partitions:
            yield PartitionResult(
                TopicPartition(topic.name, answer.partition_index),
                answer.error_code,
                ListedOffset(answer.offset, answer.timestamp, answer.leader_epoch),
            )


def fetch_committed(
    cluster: Cluster,
    group: str,
    partitions: Iterable[TopicPartition] | None,
    *,
    require_stable: bool,
    timeout_s: float | None,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """None fetches all offsets of the group. Partitions without a committed offset are left out.

    `require_stable` waits for open transactions that contain offsets of the group.
    """
    topics: dict[str, OffsetFetchRequestTopics] | None = None
    if partitions is not None:
        topics = {}
        for name, index in partitions:
            topics.setdefault(name, OffsetFetchRequestTopics(name=name)).partition_indexes.append(index)
    wanted = OffsetFetchRequestGroup(group_id=group, topics=None if topics is None else list(topics.values()))
    request = OffsetFetchRequest(groups=[wanted], require_stable=require_stable)

    def attempt(connection: Connection) -> dict[TopicPartition, OffsetAndMetadata]:
        version = connection.version_for(OffsetFetchRequest, at_least=_MANY_GROUPS_SINCE, at_most=_BY_NAME_UNTIL)
        response: OffsetFetchResponse = connection.ask(request, version)
        answer = response.groups[0]
        described = Right("Read", "group", group)
        require_success(answer.error_code, f"group '{group}'", needs=(described,))
        committed = {}
        for topic in answer.topics:
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                needs = (described, Right("Describe", "topic", topic.name))
                require_success(each.error_code, f"group '{group}', {partition}", needs=needs)
                if each.committed_offset != _NO_OFFSET:
                    committed[partition] = OffsetAndMetadata(each.committed_offset, each.metadata or "")
        return committed

    return cluster.ask_coordinator("group", group, attempt, timeout_s)


def commit_offsets(
    cluster: Cluster, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_s: float | None
) -> None:
    """Commits without membership: the broker refuses with UNKNOWN_MEMBER_ID while the group has members."""
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (name, index), (offset, metadata) in offsets.items():
        topics.setdefault(name, OffsetCommitRequestTopic(name=name)).partitions.append(
            OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata=metadata)
        )
    request = OffsetCommitRequest(group_id=group, topics=list(topics.values()))

    def attempt(connection: Connection) -> None:
        version = connection.version_for(OffsetCommitRequest, at_most=_BY_NAME_UNTIL)
        response: OffsetCommitResponse = connection.ask(request, version)
        require_partition_success(response, f"group '{group}'", (Right("Read", "group", group),))

    cluster.ask_coordinator("group", group, attempt, timeout_s)


def require_partition_success(response: Any, subject: str, needs: tuple[Right, ...]) -> None:
    """For responses to offset commits, which contain only an error code per partition."""
    for topic in response.topics:
        every = (*needs, Right("Read", "topic", topic.name))
        for answer in topic.partitions:
            partition = TopicPartition(topic.name, answer.partition_index)
            require_success(answer.error_code, f"{subject}, {partition}", needs=every)
