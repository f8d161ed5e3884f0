"""The resources that configuration requests name: what they stand for here, and how their settings are changed.

Shared by DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources. Loggers, client metrics and
groups are Kafka's other kinds; this broker keeps no settings for them and says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.core.ids import BrokerId, TopicName
from penstock.metadata.image import BrokerConfigChanged, DurableChange, TopicConfigChanged, TopicImage
from penstock.metadata.topics import validate_topic_name
from penstock.protocol.error_codes import BrokerError, ErrorCode

if TYPE_CHECKING:
    from penstock.broker.node import Node


class ResourceType(IntEnum):
    """The protocol's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


EVERY_BROKER: Final = ""
"""The resource name that stands for all brokers instead of one."""


class ConfigResource(NamedTuple):
    """`type` is the number from the wire, which may be none of ours."""

    type: int
    name: str


NewConfigs = Callable[["ResourceSettings"], dict[str, str]]


class ResourceSettings(NamedTuple):
    """One resource's own settings as they are, and what is needed to decide on others."""

    node: Node
    topic: TopicImage | None
    broker_id: BrokerId | None
    current: Mapping[str, str]


def settings_of(node: Node, resource: ConfigResource) -> ResourceSettings:
    """The settings that may be read and changed under this name, or the BrokerError that says why there are none."""
    if resource.type == ResourceType.TOPIC:
        topic = node.image.topics.get(TopicName(resource.name))
        if topic is None:
            validate_topic_name(resource.name)
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {resource.name!r}.")
        return ResourceSettings(node, topic, None, topic.configs)
    if resource.type == ResourceType.BROKER:
        broker_id = _broker_id(node, resource.name)
        return ResourceSettings(node, None, broker_id, node.image.dynamic_configs_of(broker_id))
    raise unsupported(resource.type)


def unsupported(resource_type: int) -> BrokerError:
    if resource_type in ResourceType.__members__.values():
        kind = ResourceType(resource_type).name.replace("_", " ").lower()
        return BrokerError(ErrorCode.INVALID_REQUEST, f"This broker keeps no {kind} settings.")
    return BrokerError(ErrorCode.INVALID_REQUEST, f"There is no kind of resource with the number {resource_type}.")


def change_settings(
    node: Node, wanted: Sequence[tuple[ConfigResource, NewConfigs]], *, validate_only: bool
) -> list[BrokerError | None]:
    """Decides and commits one request's changes; one answer per resource, None where all went well.

    The good ones are committed together, so that a request waits for one fsync.
    """
    times_named = Counter(resource for resource, _ in wanted)
    outcomes: list[BrokerError | None] = []
    changes: list[DurableChange] = []
    for resource, new_configs in wanted:
        try:
            if times_named[resource] > 1:
                raise BrokerError(ErrorCode.INVALID_REQUEST, "Each resource may be named once only.")
            if resource == (ResourceType.TOPIC, ""):
                raise BrokerError(ErrorCode.INVALID_REQUEST, "Settings for all topics are the broker's to have.")
            settings = settings_of(node, resource)
            configs = new_configs(settings)
            if settings.topic is not None:
                changes.append(TopicConfigChanged(settings.topic.topic_id, configs))
            else:
                changes.append(BrokerConfigChanged(settings.broker_id, configs))
            outcomes.append(None)
        except BrokerError as error:
            outcomes.append(error.to_keep())
    if changes and not validate_only:
        try:
            node.commit(changes)
        except BrokerError as error:
            refusal = error.to_keep()
            outcomes = [outcome or refusal for outcome in outcomes]
    return outcomes


def _broker_id(node: Node, name: str) -> BrokerId | None:
    if name == EVERY_BROKER:
        return None
    if name != str(node.broker_id):
        raise BrokerError(
            ErrorCode.INVALID_REQUEST, f"This is broker {node.broker_id}; it has no settings of broker {name[:100]!r}."
        )
    return node.broker_id
