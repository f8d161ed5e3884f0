"""The changes that lead from one image to a later one of the same cluster, for a node that missed the changes between.

Invariant: the changes tell a subscriber all that it would have carried out, without what has been undone since. Applied
to the earlier image they need not be valid one by one: the store puts the later image in place first (`become`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from penstock.metadata.changes import (
    AclAdded,
    AclRemoved,
    BrokerConfigChanged,
    BrokerGone,
    BrokerRegistered,
    BrokerUnregistered,
    Change,
    ClientMetricsChanged,
    ClientQuotaChanged,
    ControllerElected,
    GroupConfigChanged,
    PartitionChanged,
    PartitionsAdded,
    ProducerIdsAllocated,
    ScramCredentialRemoved,
    ScramCredentialSet,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
    TopicImage,
)
from penstock.metadata.image import ClusterImage

_Name = TypeVar("_Name")
_Configs = TypeVar("_Configs")


def difference(before: ClusterImage, after: ClusterImage) -> list[Change]:
    return [*_brokers(before, after), *_topics(before, after), *_settings(before, after), *_access(before, after)]


def become(image: ClusterImage, later: ClusterImage) -> None:
    """The image keeps its identity, because others hold on to it, and takes the contents of `later`."""
    version = max(image.version, later.version) + 1
    for name in ClusterImage.__slots__:
        setattr(image, name, getattr(later, name))
    image.version = version


def _brokers(before: ClusterImage, after: ClusterImage) -> Iterator[Change]:
    for broker_id, broker in before.brokers.items():
        if broker_id not in after.brokers:
            yield BrokerGone(broker_id, broker.epoch)
    for broker_id in before.known_brokers:
        if broker_id not in after.known_brokers:
            yield BrokerUnregistered(broker_id)
    for broker_id, broker in after.brokers.items():
        if before.brokers.get(broker_id) != broker:
            yield BrokerRegistered(broker)
    if after.controller_epoch != before.controller_epoch:
        yield ControllerElected(after.controller, after.controller_epoch)


def _topics(before: ClusterImage, after: ClusterImage) -> Iterator[Change]:
    for topic_id in before.topics_by_id:
        if topic_id not in after.topics_by_id:
            yield TopicDeleted(topic_id)
    for topic_id, topic in after.topics_by_id.items():
        earlier = before.topics_by_id.get(topic_id)
        if earlier is None:
            yield TopicCreated(topic)
        elif earlier != topic:
            yield from _topic(earlier, topic)


def _topic(before: TopicImage, after: TopicImage) -> Iterator[Change]:
    added = after.partitions[len(before.partitions) :]
    if added:
        yield PartitionsAdded(after.topic_id, added)
    for earlier, later in zip(before.partitions, after.partitions, strict=False):
        if earlier != later:
            yield PartitionChanged(after.topic_id, later)
    if before.configs != after.configs:
        yield TopicConfigChanged(after.topic_id, after.configs)


def _settings(before: ClusterImage, after: ClusterImage) -> Iterator[Change]:
    yield from _configs(before.dynamic_broker_configs, after.dynamic_broker_configs, BrokerConfigChanged)
    yield from _configs(before.group_configs, after.group_configs, GroupConfigChanged)
    yield from _configs(before.client_metrics, after.client_metrics, ClientMetricsChanged)
    yield from _configs(before.client_quotas, after.client_quotas, ClientQuotaChanged)
    if before.next_producer_id != after.next_producer_id:
        yield ProducerIdsAllocated(after.next_producer_id)


def _configs(
    before: Mapping[_Name, Mapping[str, _Configs]],
    after: Mapping[_Name, Mapping[str, _Configs]],
    changed: Callable[[_Name, Mapping[str, _Configs]], Change],
) -> Iterator[Change]:
    for name in before:
        if name not in after:
            yield changed(name, {})
    for name, configs in after.items():
        if before.get(name) != configs:
            yield changed(name, configs)


def _access(before: ClusterImage, after: ClusterImage) -> Iterator[Change]:
    for acl_id, binding in before.acls.items():
        if after.acls.get(acl_id) != binding:
            yield AclRemoved(acl_id)
    for acl_id, binding in after.acls.items():
        if before.acls.get(acl_id) != binding:
            yield AclAdded(acl_id, binding)
    for user, mechanism in before.scram_credentials:
        if (user, mechanism) not in after.scram_credentials:
            yield ScramCredentialRemoved(user, mechanism)
    for name, credential in after.scram_credentials.items():
        if before.scram_credentials.get(name) != credential:
            yield ScramCredentialSet(name[0], credential)
