"""A cluster of three brokers with one partition, for tests of decisions about its leader and in-sync replicas."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from penstock.core.ids import NO_LEADER, BrokerId, LeaderEpoch, PartitionIndex, TopicName
from penstock.metadata.broker_config import BrokerConfig
from penstock.metadata.changes import BrokerGone, Change, PartitionImage, TopicCreated, TopicImage
from penstock.metadata.image import ClusterImage
from penstock.metadata.topic_config import TopicConfig
from tests.unit.metadata.images import registered, topic_id

ONE, TWO, THREE, FOUR = (BrokerId(number) for number in range(1, 5))
ORDERS, ORDERS_ID = TopicName("orders"), topic_id(1)
INHERITED = TopicConfig.inherited(BrokerConfig.load().layers)


def state(
    leader: int,
    isr: str,
    *,
    elr: str = "",
    replicas: str = "123",
    leader_epoch: int = 0,
    last: int = NO_LEADER,
    adding: str = "",
    removing: str = "",
) -> PartitionImage:
    """A partition whose brokers are given by their digits."""
    return PartitionImage(
        PartitionIndex(0),
        BrokerId(leader),
        LeaderEpoch(leader_epoch),
        ids(replicas),
        ids(isr),
        ids(elr),
        BrokerId(last),
        ids(adding),
        ids(removing),
    )


def ids(digits: str) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(int(digit)) for digit in digits)


def shown(partition: PartitionImage) -> str:
    """The leader and its epoch, then the in-sync and the eligible replicas."""
    isr, elr = ("".join(map(str, brokers)) for brokers in (partition.isr, partition.elr))
    return f"{partition.leader}/{partition.leader_epoch} isr={isr} elr={elr}"


def cluster(
    partition: PartitionImage, live: str = "123", *, shutting_down: str = "", min_isr: int = 1, unclean: bool = False
) -> ClusterImage:
    """An image in which brokers 1 to 4 have registered in epochs of their numbers, and only some of them are live."""
    image = ClusterImage("cluster")
    for broker_id in (ONE, TWO, THREE, FOUR):
        broker = registered(broker_id).broker
        image.apply(
            replace(registered(broker_id), broker=replace(broker, is_shutting_down=str(broker_id) in shutting_down))
        )
    for broker_id in (ONE, TWO, THREE, FOUR):
        if str(broker_id) not in live + shutting_down:
            gone(image, broker_id)
    configs = {"min.insync.replicas": str(min_isr), "unclean.leader.election.enable": str(unclean).lower()}
    image.apply(TopicCreated(TopicImage(ORDERS, ORDERS_ID, (partition,), configs)))
    return image


def gone(image: ClusterImage, broker_id: int) -> None:
    image.apply(BrokerGone(BrokerId(broker_id), image.brokers[BrokerId(broker_id)].epoch))


def partition_of(image: ClusterImage) -> PartitionImage:
    return image.topics[ORDERS].partitions[0]


def apply(image: ClusterImage, changes: Iterable[Change]) -> ClusterImage:
    for change in changes:
        image.apply(change)
    return image
