"""The markers of one ended transaction on their way to every partition that it touched, wherever it is led.

Partitions that this broker leads get theirs directly (`markers.py`), in the same append round. The others go to their
leaders by WriteTxnMarkers, one request for each broker. A partition without a leader, or with one that does not answer,
is a failure; the coordinator delivers to it again, until its leader has the marker.

Owns: one attempt. Must not know when the next one is made, and which failures are lasting.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from penstock.broker.transactions.markers import Failures, OnWritten, TransactionEnd, write_markers
from penstock.coordinator.transaction import ProtocolLevel
from penstock.core.ids import NO_LEADER, BrokerId, TopicName, TopicPartition
from penstock.protocol.error_codes import BrokerError, ErrorCode, known_code

if TYPE_CHECKING:
    from penstock.broker.node import Node
    from penstock.protocol.definitions.write_txn_markers import WriteTxnMarkersResponse

MARKERS_LANE: Final = "markers"
"""Markers wait for the replicas of their partitions, so that they have a connection of their own."""

# Longer than the other broker waits for its replicas (`handlers/write_txn_markers.py`).
_TIMEOUT_S: Final = 10.0


def deliver_markers(
    node: Node, end: TransactionEnd, partitions: Iterable[TopicPartition], on_delivered: OnWritten
) -> None:
    """Calls back once every leader has answered, with the partitions that have no marker and why."""
    here: list[TopicPartition] = []
    elsewhere: dict[BrokerId, list[TopicPartition]] = {}
    for place in partitions:
        leader = _leader_elsewhere(node, place)
        if leader is None:
            here.append(place)
        else:
            elsewhere.setdefault(leader, []).append(place)
    if not elsewhere:
        write_markers(node, end, here, on_delivered)
        return
    delivery = _Delivery(len(elsewhere) + 1, on_delivered)
    for leader, places in elsewhere.items():
        node.tasks.start(f"markers to broker {leader}", _send(node, leader, end, places, delivery))
    write_markers(node, end, here, delivery.settle)


def _leader_elsewhere(node: Node, place: TopicPartition) -> BrokerId | None:
    """The other broker that leads the partition. None: this one does, or writing here will say what is wrong."""
    topic = node.image.topics.get(TopicName(place.topic))
    if topic is None or not 0 <= place.partition < len(topic.partitions):
        return None
    leader = topic.partitions[place.partition].leader
    return None if leader in (node.broker_id, NO_LEADER) else leader


class _Delivery:
    """Complete when every leader has answered."""

    def __init__(self, outstanding: int, on_delivered: OnWritten) -> None:
        self._outstanding = outstanding
        self._on_delivered = on_delivered
        self._failures: Failures = {}

    def settle(self, failures: Failures) -> None:
        self._failures |= failures
        self._outstanding -= 1
        if not self._outstanding:
            self._on_delivered(self._failures)


async def _send(
    node: Node, leader: BrokerId, end: TransactionEnd, places: list[TopicPartition], delivery: _Delivery
) -> None:
    from penstock.protocol.definitions.write_txn_markers import (
        WritableTxnMarker,
        WritableTxnMarkerTopic,
        WriteTxnMarkersRequest,
    )

    topics: dict[str, WritableTxnMarkerTopic] = {}
    for topic, partition in places:
        topics.setdefault(topic, WritableTxnMarkerTopic(name=topic)).partition_indexes.append(partition)
    level = ProtocolLevel.EPOCH_PER_TRANSACTION if end.epoch_must_be_new else ProtocolLevel.CLASSIC
    marker = WritableTxnMarker(
        producer_id=end.producer.producer_id,
        producer_epoch=end.producer.epoch,
        transaction_result=end.committed,
        topics=list(topics.values()),
        coordinator_epoch=end.coordinator_epoch,
        transaction_version=level,
    )
    try:
        channel = node.peers.channel(leader, MARKERS_LANE)
        response = await channel.request(WriteTxnMarkersRequest(markers=[marker]), timeout_s=_TIMEOUT_S)
    except BrokerError as error:
        delivery.settle(dict.fromkeys(places, error.to_keep()))
    else:
        delivery.settle(_failures_in(node, leader, places, response))


def _failures_in(
    node: Node, leader: BrokerId, places: list[TopicPartition], response: WriteTxnMarkersResponse
) -> Failures:
    codes = {
        TopicPartition(topic.name, partition.partition_index): known_code(partition.error_code)
        for marker in response.markers
        for topic in marker.topics
        for partition in topic.partitions
    }
    failures: Failures = {}
    for place in places:
        code = codes.get(place, ErrorCode.UNKNOWN_SERVER_ERROR)
        if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and _exists(node, place):
            # The other broker has not heard of the topic yet.
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if code:
            failures[place] = BrokerError(code, f"Broker {leader} answered: {code.text}")
    return failures


def _exists(node: Node, place: TopicPartition) -> bool:
    topic = node.image.topics.get(TopicName(place.topic))
    return topic is not None and place.partition < len(topic.partitions)
