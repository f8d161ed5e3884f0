"""The resources of configuration requests: which settings they name, and how these are changed.

Shared by DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources. This broker has no settings of
loggers, client metrics and groups, which are Kafka's other kinds of resource.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.core.acls import AclOperation
from penstock.core.ids import BrokerId, TopicName
from penstock.metadata.broker_config import BrokerConfig
from penstock.metadata.image import (
    BrokerConfigChanged,
    ClusterImage,
    DurableChange,
    TopicConfigChanged,
    TopicImage,
)
from penstock.metadata.topics import validate_topic_name
from penstock.protocol.error_codes import BrokerError, ErrorCode

if TYPE_CHECKING:
    from penstock.broker.access import Access
    from penstock.broker.request_context import RequestContext


class ResourceType(IntEnum):
    """The protocol's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


EVERY_BROKER: Final = ""
"""The resource name of the settings for all brokers."""


class ConfigResource(NamedTuple):
    """`type` is the number from the wire, which need not be a `ResourceType`."""

    type: int
    name: str


NewConfigs = Callable[["ResourceConfigs", BrokerConfig], dict[str, str]]
"""From a resource's settings, and the broker's configuration, to all settings that the resource has afterwards."""


class ResourceConfigs(NamedTuple):
    """The settings of one resource: a topic's, one broker's, or with neither those of all brokers."""

    topic: TopicImage | None
    broker_id: BrokerId | None
    current: Mapping[str, str]


def configs_of(resource: ConfigResource, image: ClusterImage, this_broker: BrokerId) -> ResourceConfigs:
    """The settings of a resource. Raises the BrokerError for a resource that has none."""
    if resource.type == ResourceType.TOPIC:
        topic = image.topics.get(TopicName(resource.name))
        if topic is None:
            validate_topic_name(resource.name)
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {resource.name!r}.")
        return ResourceConfigs(topic, None, topic.configs)
    if resource.type == ResourceType.BROKER:
        broker_id = _broker_id(this_broker, resource.name)
        return ResourceConfigs(None, broker_id, image.dynamic_configs_of(broker_id))
    raise unsupported(resource.type)


def unsupported(resource_type: int) -> BrokerError:
    if resource_type in ResourceType.__members__.values():
        kind = ResourceType(resource_type).name.replace("_", " ").lower()
        return BrokerError(ErrorCode.INVALID_REQUEST, f"This broker keeps no {kind} settings.")
    return BrokerError(ErrorCode.INVALID_REQUEST, f"There is no kind of resource with the number {resource_type}.")


def check_access(access: Access, operation: AclOperation, resource: ConfigResource) -> None:
    """Settings of a topic need the topic, all others the cluster."""
    if resource.type == ResourceType.TOPIC:
        access.check_topic(operation, resource.name)
    elif resource.type == ResourceType.GROUP:
        access.check_group(operation, resource.name)
    else:
        access.check_cluster(operation)


def alter_configs(
    context: RequestContext,
    wanted: Sequence[tuple[ConfigResource, NewConfigs]],
    on_done: Callable[[list[BrokerError | None]], None],
    *,
    validate_only: bool,
) -> None:
    """Proposes one request's changes together, so that they share one fsync. Tells one outcome per resource."""
    node = context.node
    outcomes: list[BrokerError | None] = []

    def decide(image: ClusterImage) -> list[DurableChange]:
        nonlocal outcomes
        outcomes, changes = _decide(wanted, image, context, node.config_in(image))
        return [] if validate_only else changes

    def decided(failure: BrokerError | None) -> None:
        if failure is None:
            on_done(outcomes)
        else:
            on_done([outcome or failure for outcome in outcomes or [None] * len(wanted)])

    node.propose(decide, decided)


def _decide(
    wanted: Sequence[tuple[ConfigResource, NewConfigs]],
    image: ClusterImage,
    context: RequestContext,
    broker_config: BrokerConfig,
) -> tuple[list[BrokerError | None], list[DurableChange]]:
    times_named = Counter(resource for resource, _ in wanted)
    outcomes: list[BrokerError | None] = []
    changes: list[DurableChange] = []
    for resource, new_configs in wanted:
        try:
            if times_named[resource] > 1:
                raise BrokerError(ErrorCode.INVALID_REQUEST, "Each resource may be named once only.")
            if resource == (ResourceType.TOPIC, ""):
                raise BrokerError(ErrorCode.INVALID_REQUEST, "Settings for all topics are the broker's to have.")
            check_access(context.access, AclOperation.ALTER_CONFIGS, resource)
            settings = configs_of(resource, image, context.node.broker_id)
            configs = new_configs(settings, broker_config)
            if settings.topic is not None:
                changes.append(TopicConfigChanged(settings.topic.topic_id, configs))
            else:
                changes.append(BrokerConfigChanged(settings.broker_id, configs))
            outcomes.append(None)
        except BrokerError as error:
            outcomes.append(error.to_keep())
    return outcomes, changes


def _broker_id(this_broker: BrokerId, name: str) -> BrokerId | None:
    if name == EVERY_BROKER:
        return None
    if name != str(this_broker):
        raise BrokerError(
            ErrorCode.INVALID_REQUEST, f"This is broker {this_broker}; it has no settings of broker {name[:100]!r}."
        )
    return this_broker
