"""Figures that are worked out when a scrape asks for them: logs, groups with their lag, transactions, the cleaner's
failures. A broker that serves no metrics does none of this.

Names are kafka_exporter's and those of Kafka's JMX metrics where they have one; others begin with `penstock_`.

Invariant: a reader copies what it walks through and yields None after each unit of work, so that a scrape of a broker
with thousands of partitions, groups or transactions takes many short turns of the event loop, and changes in between
harm nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, TypeAlias

from penstock.core.ids import TopicPartition
from penstock.core.metrics import Labels, Metrics
from penstock.metadata.topics import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC

if TYPE_CHECKING:
    from penstock.broker.groups.traits import Group
    from penstock.broker.node import Node
    from penstock.broker.partition import Partition
    from penstock.coordinator.offsets import Offsets
    from penstock.coordinator.transaction import Transaction

_Values: TypeAlias = Iterator[tuple[Labels, float] | None]

# As Kafka: a transaction is late this long after the longest timeout that a producer may ask for (KIP-664).
_LATE_AFTER_TIMEOUT_MS: Final = 300_000

# By their numbers, in which `coordinator.transaction.TransactionState` has them. Not imported from there: a broker
# without transactions has not loaded that, and the first scrape would stand still for it.
_TRANSACTION_STATES: Final = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")


def watch_node(node: Node, metrics: Metrics) -> None:
    """Lets `metrics` read the figures of the node."""
    _watch_logs(node, metrics)
    _watch_replicas(node, metrics)
    _watch_groups(node, metrics)
    _watch_transactions(node, metrics)


# Logs


def _watch_logs(node: Node, metrics: Metrics) -> None:
    def watch(name: str, help_text: str, value: Callable[[Partition], int]) -> None:
        def read() -> _Values:
            for partition in tuple(node.topics.replicas()):
                yield {"topic": partition.topic_name, "partition": str(partition.index)}, value(partition)

        metrics.gauge_reader(name, help_text, read)

    watch("kafka_log_log_size", "Bytes of all segments.", lambda each: each.log.size_bytes)
    watch("kafka_log_log_numlogsegments", "Segments.", lambda each: len(each.log.segment_base_offsets))
    watch("kafka_log_log_logstartoffset", "The first offset.", lambda each: each.log.log_start_offset)
    watch("kafka_log_log_logendoffset", "The next offset.", lambda each: each.log.log_end_offset)
    watch(
        "kafka_topic_partition_current_offset",
        "The high watermark: the offset that consumers can read up to.",
        lambda each: each.high_watermark,
    )
    watch(
        "kafka_topic_partition_oldest_offset",
        "The first offset that consumers can read.",
        lambda each: each.log.log_start_offset,
    )
    metrics.gauge_reader(
        "kafka_topic_partitions",
        "Partitions of the topic.",
        lambda: (({"topic": topic.name}, len(topic.partitions)) for topic in tuple(node.topics)),
    )


# Replicas


def _watch_replicas(node: Node, metrics: Metrics) -> None:
    def watch(name: str, help_text: str, counts: Callable[[Partition], bool]) -> None:
        def read() -> _Values:
            count = 0
            for partition in tuple(node.topics.replicas()):
                count += counts(partition)
                yield None
            yield {}, count

        metrics.gauge_reader(name, help_text, read)

    metrics.gauge_reader("kafka_brokers", "Brokers of the cluster.", lambda: [({}, len(node.image.brokers))])
    prefix = "kafka_server_replicamanager_"
    watch(prefix + "partitioncount", "Partitions that this broker has a replica of.", lambda each: True)
    watch(prefix + "leadercount", "Partitions that this broker leads.", lambda each: each.is_leader)
    watch(
        prefix + "underreplicatedpartitions",
        "Partitions that this broker leads and that have replicas out of sync.",
        lambda each: each.leader is not None and len(each.leader.in_sync) < len(each.leader.replicas),
    )
    watch(
        prefix + "offlinereplicacount",
        "Replicas of this broker whose files were moved, deleted or cannot be read.",
        lambda each: each.offline_reason is not None,
    )
    watch(
        "kafka_log_logcleanermanager_uncleanable_partitions_count",
        "Partitions that are not compacted until the broker starts again; the log says why.",
        lambda each: each.log.lifecycle.uncleanable is not None,
    )


# Groups


def _watch_groups(node: Node, metrics: Metrics) -> None:
    prefix = "kafka_coordinator_group_groupmetadatamanager_"
    metrics.gauge_reader(prefix + "numgroups", "Groups.", lambda: _number_of_groups(node))
    metrics.gauge_reader(prefix + "nummembers", "Members of all groups.", lambda: _number_of_members(node))
    metrics.gauge_reader("kafka_consumergroup_members", "Members of the group.", lambda: _members(node))
    metrics.gauge_reader(
        "kafka_consumergroup_current_offset",
        "The committed offset of the group.",
        lambda: _offsets(node, lambda offset, partition: offset),
    )
    metrics.gauge_reader(
        "kafka_consumergroup_lag",
        "Offsets between the committed one of the group and the high watermark.",
        lambda: _offsets(node, _lag),
    )


def _groups(node: Node) -> list[tuple[Group, Offsets]]:
    """The groups that are loaded. Groups of a broker that has just started are loaded because of this, in slices."""
    if GROUP_OFFSETS_TOPIC not in node.topics:
        return []
    return [(group, shard.offsets) for shard in node.groups.load_all() for group in tuple(shard.groups.values())]


def _number_of_groups(node: Node) -> _Values:
    yield {}, len(_groups(node))


def _members(node: Node) -> _Values:
    for group, _ in _groups(node):
        from penstock.broker.groups.traits import member_count  # loaded already, as there are groups

        yield {"consumergroup": group.group_id}, member_count(group)


def _number_of_members(node: Node) -> _Values:
    count = 0.0
    for item in _members(node):
        assert item is not None
        count += item[1]
        yield None
    yield {}, count


def _offsets(node: Node, value: Callable[[int, Partition], int]) -> _Values:
    for group, offsets in _groups(node):
        for place, committed in offsets.fetch_all(group.group_id).items():
            partition = node.replica(place)
            # The topic may have been deleted a moment ago; its offsets go with it.
            if partition is None:
                yield None
                continue
            yield (
                {"consumergroup": group.group_id, "topic": place.topic, "partition": str(place.partition)},
                value(committed.offset, partition),
            )
        yield None


def _lag(offset: int, partition: Partition) -> int:
    return max(0, partition.high_watermark - offset)


# Transactions


def _watch_transactions(node: Node, metrics: Metrics) -> None:
    metrics.gauge_reader(
        "penstock_transactions",
        "Transactional ids by the state of their last transaction; Ongoing, PrepareCommit and PrepareAbort are open.",
        lambda: _transactions_by_state(node),
    )
    metrics.gauge_reader(
        "penstock_transactions_oldest_open_seconds",
        "The age of the oldest transaction that its producer has not ended; 0 if there is none.",
        lambda: _oldest_open_s(node),
    )
    metrics.gauge_reader(
        "penstock_transactions_hanging",
        "Transactions that are open in a partition and unknown to their coordinator: read_committed readers wait.",
        lambda: _hanging(node),
    )
    metrics.gauge_reader(
        "kafka_server_replicamanager_partitionswithlatetransactionscount",
        "Partitions with a transaction that is open for longer than transaction.max.timeout.ms and five minutes.",
        lambda: _late(node),
    )


def _transactions(node: Node) -> list[Transaction] | None:
    """None while they are being loaded."""
    return node.transactions.load_all() if TRANSACTION_STATE_TOPIC in node.topics else []


def _transactions_by_state(node: Node) -> _Values:
    counts: Counter[int] = Counter()
    for transaction in _transactions(node) or ():
        counts[transaction.state] += 1
        yield None
    for number, label in enumerate(_TRANSACTION_STATES):
        yield {"state": label}, counts[number]


def _oldest_open_s(node: Node) -> _Values:
    now_ms = node.now_ms()
    oldest_ms = now_ms
    for transaction in _transactions(node) or ():
        if transaction.deadline_ms is not None:
            oldest_ms = min(oldest_ms, transaction.start_ms)
        yield None
    yield {}, (now_ms - oldest_ms) / 1000


def _hanging(node: Node) -> _Values:
    # In this order: a transaction is known to its coordinator before a partition has it, and as long as one does.
    suspects: list[tuple[Partition, int, int]] = []
    for partition in tuple(node.topics.led()):
        suspects += [(partition, *each) for each in partition.log.producer_state.transactions.open.items()]
        yield None
    known = _transactions(node)
    if known is None:
        return
    places: dict[int, frozenset[TopicPartition]] = {}
    for transaction in known:
        places[transaction.producer_id] = transaction.partitions
        yield None
    count = 0
    for partition, first_offset, producer_id in suspects:
        place = TopicPartition(partition.topic_name, partition.index)
        is_open = partition.log.producer_state.transactions.open.get(first_offset) == producer_id
        count += is_open and not partition.is_deleted and place not in places.get(producer_id, frozenset())
    yield {}, count


def _late(node: Node) -> _Values:
    late_ms = node.now_ms() - node.config.transaction_max_timeout_ms - _LATE_AFTER_TIMEOUT_MS
    count = 0
    for partition in tuple(node.topics.led()):
        state = partition.log.producer_state
        count += any(state.entries[each].last_seen_ms < late_ms for each in state.transactions.open.values())
        yield None
    yield {}, count
