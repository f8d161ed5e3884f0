"""The leader that Produce and Fetch name when a client asked the wrong broker or in an old leader epoch (KIP-951).

The client learns leader, epoch and endpoint with the refusal and need not ask for metadata first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.core.ids import TopicId, TopicName
from penstock.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from penstock.broker.request_context import RequestContext

# The errors that come with the current leader.
LEADER_ERRORS: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class CurrentLeader(NamedTuple):
    """`host` and `port` are those of the listener that the client came in by."""

    leader_id: int
    leader_epoch: int
    host: str
    port: int
    rack: str | None


def current_leader(context: RequestContext, topic: str | bytes, partition: int) -> CurrentLeader | None:
    """The partition's leader by the cluster image; None where it has none that this client could reach."""
    image = context.node.image
    found = image.topics_by_id.get(TopicId(topic)) if isinstance(topic, bytes) else image.topics.get(TopicName(topic))
    if found is None or not 0 <= partition < len(found.partitions):
        return None
    state = found.partitions[partition]
    leader = image.brokers.get(state.leader)
    endpoint = None if leader is None else context.endpoint_of(leader)
    if leader is None or endpoint is None:
        return None
    return CurrentLeader(state.leader, state.leader_epoch, endpoint.host, endpoint.port, leader.rack)
