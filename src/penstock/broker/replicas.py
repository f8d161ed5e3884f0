"""This broker's replicas: opens and closes them, and gives each its role, as the cluster image says.

Must not know how changes are decided or committed (`node.py` passes them on), nor how replicas follow their leaders
(`replication/`).

Invariant: once the changes of a proposal are carried out, this broker has exactly the replicas that the image gives it,
each in the role and the leader epoch that the image says. Until it has registered it leads nothing: what the image says
is then about its last run, whose end may have cost it records.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.broker.metrics import TopicMetrics
from penstock.broker.partition import Partition, role_of
from penstock.broker.topic_table import Topic
from penstock.core.ids import NO_LEADER, TopicName, TopicPartition
from penstock.metadata.topics import TRANSACTION_STATE_TOPIC

if TYPE_CHECKING:
    from penstock.broker.node import Node
    from penstock.metadata.changes import PartitionImage, TopicImage

logger = logging.getLogger(__name__)


class Replicas:
    """Belongs to the event loop."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._is_starting = True
        self._may_lead = node.store.lease_deadline_ms is None

    def registered(self) -> None:
        """This broker is live: it takes the roles that the image gives it."""
        if self._may_lead:
            return
        self._may_lead = True
        for partition in tuple(self._node.topics.replicas()):
            self._change_role(partition, self._node.image.topics[TopicName(partition.topic_name)])

    def open_all(self) -> None:
        """Opens this broker's replicas of every topic in the image. Files that belong to none of them are set aside."""
        node, directory = self._node, self._node.log_directory
        for path in directory.removed_strays:
            logger.warning("%s belonged to no topic for a week, and was removed", path)
        for (name, index), log in tuple(directory.logs.items()):
            topic = node.image.topics.get(TopicName(name))
            if topic is None or not self._is_own(topic, index) or not self._belongs_to(topic, index):
                # A deletion that a crash interrupted, or files that were copied here: not served, and deleted later.
                aside = directory.set_aside(name, index, node.entropy.uuid().hex(), node.now_ms())
                logger.warning(
                    "%s belongs to no topic of this broker; set aside as %s, and removed by a start in a week",
                    log.directory,
                    aside,
                )
        for topic in node.image.topics.values():
            self.serve(topic)
        self._is_starting = False

    def serve(self, image: TopicImage) -> None:
        """A topic was created."""
        topic = Topic(image.name, image.topic_id, [])
        self._node.topics.add(topic)
        topic.partitions.extend(self._open(image, image.partitions))

    def add(self, image: TopicImage, partitions: Iterable[PartitionImage]) -> None:
        """Partitions were added to a topic."""
        self._node.topics.topic(image.name).partitions.extend(self._open(image, partitions))

    def reconfigure(self, image: TopicImage) -> None:
        """Settings of the topic, or of all topics, have changed."""
        config, settings = self._node.topic_config(image), self._node.log_config_of(image)
        for partition in self._node.topics.topic(image.name).partitions:
            if partition is not None:
                partition.reconfigure(config)
                partition.log.config = settings

    def change(self, image: TopicImage, index: int) -> None:
        """The state of a partition has changed."""
        node = self._node
        partitions = node.topics.topic(image.name).partitions
        # What was staged in the old role is written in it.
        node.appends.write()
        partition = partitions[index]
        if partition is None:
            [partitions[index]] = self._open(image, image.partitions[index : index + 1])
        elif not self._is_own(image, index):
            partitions[index] = None
            if partition.is_leader:
                node.resign(image.name, index)
            self._close(partition)
        else:
            self._change_role(partition, image)

    def drop_deleted(self) -> None:
        """Topics were deleted."""
        node = self._node
        # Batches that were staged in the same socket read are written while the files still have their names.
        node.appends.write()
        for topic in [topic for topic in node.topics if topic.topic_id not in node.image.topics_by_id]:
            node.topics.remove(topic.name)
            TopicMetrics.remove(node.metrics, topic.name)
            for partition in topic.partitions:
                if partition is not None:
                    self._close(partition)

    def _change_role(self, partition: Partition, image: TopicImage) -> None:
        node = self._node
        led_in = partition.leader_epoch if partition.is_leader else None
        followed_in = None if partition.is_leader else partition.leader_epoch
        partition.change(self._given(image.partitions[partition.index]), node.broker_id, node.clock.monotonic_ms())
        leads_in = partition.leader_epoch if partition.is_leader else None
        follows_in = None if partition.is_leader else partition.leader_epoch
        if node.replication is not None and (leads_in, follows_in) != (led_in, followed_in):
            node.replication.role_changed(partition)
        if led_in == leads_in:
            return
        if led_in is not None:
            # Also where this broker leads again: between the two epochs another one may have led.
            node.resign(image.name, partition.index)
        if leads_in is not None and image.name == TRANSACTION_STATE_TOPIC:
            node.resume_transactions()

    def _open(self, image: TopicImage, partitions: Iterable[PartitionImage]) -> Iterator[Partition | None]:
        """The replicas that are this broker's own; None for the others."""
        node = self._node
        config, settings = node.topic_config(image), node.log_config_of(image)
        traffic = TopicMetrics(node.metrics, image.name)
        for partition in partitions:
            if node.broker_id not in partition.replicas:
                yield None
                continue
            place = TopicPartition(image.name, partition.index)
            log = node.log_directory.logs.get(place)
            if log is None:
                if self._is_starting:
                    self._is_missing(place, partition)
                log = node.log_directory.create(image.name, partition.index, image.topic_id, settings, node.now_ms())
            checkpointed = node.log_directory.high_watermarks.get(place, 0)
            high_watermark = max(log.log_start_offset, min(checkpointed, log.log_end_offset))
            role = role_of(
                self._given(partition), node.broker_id, log, config, high_watermark, node.clock.monotonic_ms()
            )
            opened = Partition(image.name, image.topic_id, partition.index, role, log, config, traffic)
            if node.replication is not None:
                node.replication.role_changed(opened)
            yield opened

    def _given(self, partition: PartitionImage) -> PartitionImage:
        """What this broker makes of the image's partition."""
        if self._may_lead or partition.leader != self._node.broker_id:
            return partition
        return replace(partition, leader=NO_LEADER)

    def _is_missing(self, place: TopicPartition, partition: PartitionImage) -> None:
        """At a start. A replica that others rely on is empty: it must leave their sets, as after an unclean end."""
        logger.error("%s: its directory is missing, so the partition starts empty", place)
        if self._node.broker_id in (*partition.isr, *partition.elr):
            self._node.log_directory.clean_shutdown_epoch = None

    def _close(self, partition: Partition) -> None:
        """The replica is no longer this broker's. Its files are removed in the background."""
        node = self._node
        abandoned = node.log_directory.delete(partition.topic_name, partition.index, node.entropy.uuid().hex())
        partition.deleted()
        if node.replication is not None:
            node.replication.replica_closed(partition)
        node.remove_later(abandoned)

    def _is_own(self, topic: TopicImage, index: int) -> bool:
        return index < len(topic.partitions) and self._node.broker_id in topic.partitions[index].replicas

    def _belongs_to(self, topic: TopicImage, index: int) -> bool:
        """Whether the files belong to this topic, and not to an earlier one of the same name."""
        made_for = self._node.log_directory.topic_id(topic.name, index)
        return made_for is None or made_for == topic.topic_id
