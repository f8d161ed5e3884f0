"""Elections on request (ElectLeaders), and the return of leadership to the preferred replicas.

The preferred replica of a partition is its first one. Placement gives each broker its share of preferred replicas, so
leadership is balanced when they lead.

Must not know: requests, timers.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.core.ids import NO_LEADER, BrokerId, TopicName
from penstock.metadata.changes import PartitionChanged, PartitionImage, TopicImage
from penstock.metadata.controller import check_controller
from penstock.metadata.image import ClusterImage
from penstock.metadata.partition_state import Election, LiveBrokers, ReplicationRules, next_state
from penstock.metadata.topic_config import TopicConfig
from penstock.protocol.error_codes import BrokerError, ErrorCode

Elections = dict[tuple[str, int], PartitionChanged | BrokerError]


def decide_elections(
    image: ClusterImage, partitions: Iterable[tuple[str, int]] | None, election: Election, inherited: TopicConfig
) -> Elections:
    """The outcome for each partition. Asked for all (None), those that need none are left out, as in Kafka."""
    brokers = LiveBrokers.of(image)
    outcomes: Elections = {}
    if partitions is None:
        for topic in image.topics.values():
            for partition in topic.partitions:
                outcome = _outcome(topic, partition, brokers, election, inherited)
                if not (isinstance(outcome, BrokerError) and outcome.code is ErrorCode.ELECTION_NOT_NEEDED):
                    outcomes[topic.name, partition.index] = outcome
        return outcomes
    for name, index in partitions:
        found = image.topics.get(TopicName(name))
        if found is None or not 0 <= index < len(found.partitions):
            outcomes[name, index] = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            outcomes[name, index] = _outcome(found, found.partitions[index], brokers, election, inherited)
    return outcomes


def decide_balance(
    image: ClusterImage, broker_id: BrokerId, inherited: TopicConfig, *, partitions_max: int
) -> list[PartitionChanged]:
    """Preferred leaders wherever they are in sync, if the broker is the controller. As many as Kafka's at a time."""
    check_controller(image, broker_id)
    brokers = LiveBrokers.of(image)
    changes: list[PartitionChanged] = []
    for topic in image.topics.values():
        for partition in topic.partitions:
            # A reassignment is left to end first.
            if partition.leader != partition.replicas[0] and not partition.adding and not partition.removing:
                outcome = _outcome(topic, partition, brokers, Election.PREFERRED, inherited)
                if isinstance(outcome, PartitionChanged):
                    changes.append(outcome)
                    if len(changes) == partitions_max:
                        return changes
    return changes


def _outcome(
    topic: TopicImage, partition: PartitionImage, brokers: LiveBrokers, election: Election, inherited: TopicConfig
) -> PartitionChanged | BrokerError:
    preferred = partition.replicas[0]
    is_preferred = election is Election.PREFERRED
    if partition.leader == preferred if is_preferred else partition.leader != NO_LEADER:
        return BrokerError(ErrorCode.ELECTION_NOT_NEEDED)
    after = next_state(partition, brokers, ReplicationRules.of(topic, inherited), election=election)
    if after is None or after.leader == NO_LEADER or (is_preferred and after.leader != preferred):
        return BrokerError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE if is_preferred else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        )
    return PartitionChanged(topic.topic_id, after)
