"""The resources of configuration requests: which settings they name, and how these are changed.

Shared by DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources. Settings are part of the
cluster image; the levels of loggers belong to this process (`logger_levels.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.broker import logger_levels
from penstock.core import limits
from penstock.core.acls import AclOperation
from penstock.core.ids import BrokerId, TopicName
from penstock.metadata.broker_config import BrokerConfig
from penstock.metadata.changes import (
    BrokerConfigChanged,
    ClientMetricsChanged,
    DurableChange,
    GroupConfigChanged,
    TopicConfigChanged,
    TopicImage,
)
from penstock.metadata.image import ClusterImage
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
    """The settings of one resource. `topic` is a topic's; a broker's `broker_id` is None for those of all brokers."""

    type: ResourceType
    name: str
    current: Mapping[str, str]
    topic: TopicImage | None = None
    broker_id: BrokerId | None = None


def configs_of(resource: ConfigResource, image: ClusterImage, this_broker: BrokerId) -> ResourceConfigs:
    """The settings of a resource. Raises the BrokerError for a resource that has none."""
    kind, name = resource
    if kind == ResourceType.TOPIC:
        topic = image.topics.get(TopicName(name))
        if topic is None:
            validate_topic_name(name)
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {name!r}.")
        return ResourceConfigs(ResourceType.TOPIC, name, topic.configs, topic=topic)
    if kind == ResourceType.BROKER:
        broker_id = _broker_id(this_broker, name)
        return ResourceConfigs(ResourceType.BROKER, name, image.dynamic_configs_of(broker_id), broker_id=broker_id)
    if kind not in ResourceType.__members__.values():
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"There is no kind of resource with the number {kind}.")
    if name == "":
        text = ResourceType(kind).name.replace("_", " ").lower()
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"Name the {text}: there are no settings for all of them.")
    if kind == ResourceType.BROKER_LOGGER:
        _broker_id(this_broker, name)
        return ResourceConfigs(ResourceType.BROKER_LOGGER, name, logger_levels.current_levels(), broker_id=this_broker)
    of_kind = image.group_configs if kind == ResourceType.GROUP else image.client_metrics
    return ResourceConfigs(ResourceType(kind), name, of_kind.get(name, {}))


def check_count(resources: Iterable[ConfigResource]) -> None:
    """Topics and brokers are bounded by those that exist. Raises BrokerError for the whole request."""
    count = sum(1 for kind, _ in resources if kind in (ResourceType.GROUP, ResourceType.CLIENT_METRICS))
    if count > limits.CONFIG_RESOURCES_MAX:
        raise BrokerError(
            ErrorCode.INVALID_REQUEST,
            f"The request names {count} groups and client metrics; at most {limits.CONFIG_RESOURCES_MAX} are allowed.",
        )


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
    decision = _Decision()
    try:
        check_count(resource for resource, _ in wanted)
    except BrokerError as error:
        on_done([error.to_keep()] * len(wanted))
        return

    def decide(image: ClusterImage) -> list[DurableChange]:
        nonlocal decision
        decision = _decide(wanted, image, context, node.config_in(image))
        return [] if validate_only else decision.changes

    def decided(failure: BrokerError | None) -> None:
        if failure is not None:
            on_done([outcome or failure for outcome in decision.outcomes or [None] * len(wanted)])
            return
        if not validate_only:
            logger_levels.set_levels(decision.levels)
        on_done(decision.outcomes)

    node.propose(decide, decided)


@dataclass(slots=True)
class _Decision:
    """What a request changes: durable settings, and levels of loggers. One outcome per resource."""

    outcomes: list[BrokerError | None] = field(default_factory=list)
    changes: list[DurableChange] = field(default_factory=list)
    levels: dict[str, str] = field(default_factory=dict)


def _decide(
    wanted: Sequence[tuple[ConfigResource, NewConfigs]],
    image: ClusterImage,
    context: RequestContext,
    broker_config: BrokerConfig,
) -> _Decision:
    times_named = Counter(resource for resource, _ in wanted)
    decision = _Decision()
    for resource, new_configs in wanted:
        try:
            if times_named[resource] > 1:
                raise BrokerError(ErrorCode.INVALID_REQUEST, "Each resource may be named once only.")
            if resource == (ResourceType.TOPIC, ""):
                raise BrokerError(ErrorCode.INVALID_REQUEST, "Settings for all topics are the broker's to have.")
            check_access(context.access, AclOperation.ALTER_CONFIGS, resource)
            settings = configs_of(resource, image, context.node.broker_id)
            configs = new_configs(settings, broker_config)
            if settings.type is ResourceType.BROKER_LOGGER:
                decision.levels = configs
            else:
                decision.changes.append(_change(settings, configs))
            decision.outcomes.append(None)
        except BrokerError as error:
            decision.outcomes.append(error.to_keep())
    return decision


def _change(settings: ResourceConfigs, configs: dict[str, str]) -> DurableChange:
    if settings.topic is not None:
        return TopicConfigChanged(settings.topic.topic_id, configs)
    if settings.type is ResourceType.GROUP:
        return GroupConfigChanged(settings.name, configs)
    if settings.type is ResourceType.CLIENT_METRICS:
        return ClientMetricsChanged(settings.name, configs)
    return BrokerConfigChanged(settings.broker_id, configs)


def _broker_id(this_broker: BrokerId, name: str) -> BrokerId | None:
    if name == EVERY_BROKER:
        return None
    if name != str(this_broker):
        raise BrokerError(
            ErrorCode.INVALID_REQUEST, f"This is broker {this_broker}; it has no settings of broker {name[:100]!r}."
        )
    return this_broker
