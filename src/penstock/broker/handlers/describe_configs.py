"""DescribeConfigs: settings of topics, brokers, loggers, groups and client metrics, each with its source and what it
overrides.

An empty broker name stands for the settings that were given to all brokers at run time. A group or a client metrics
subscription that does not exist is described with the defaults, as in Kafka. Versions: 1 to 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.config_resources import ConfigResource, ResourceType, check_access, check_count, configs_of
from penstock.broker.request_context import RequestContext
from penstock.core.acls import AclOperation
from penstock.metadata.config_description import (
    ConfigRow,
    describe_broker,
    describe_client_metrics,
    describe_cluster_default,
    describe_group,
    describe_loggers,
    describe_topic,
)
from penstock.protocol.definitions.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from penstock.protocol.error_codes import BrokerError

if TYPE_CHECKING:
    from penstock.broker.node import Node


def handle(request: DescribeConfigsRequest, context: RequestContext) -> DescribeConfigsResponse:
    response = DescribeConfigsResponse()
    asked_before: set[object] = set()
    refusal = _refusal(request)
    for resource in request.resources:
        # No keys at all and an empty list of keys both ask for everything, as in Kafka.
        wanted = frozenset(resource.configuration_keys or ())
        question = (resource.resource_type, resource.resource_name, wanted)
        if question in asked_before:
            # Answered once, so that a small request cannot cause a huge answer.
            continue
        asked_before.add(question)
        result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
        response.results.append(result)
        try:
            if refusal is not None:
                raise refusal
            named = ConfigResource(resource.resource_type, resource.resource_name)
            check_access(context.access, AclOperation.DESCRIBE_CONFIGS, named)
            rows = _rows(named, context.node)
            result.configs = [_shown(row, request) for row in rows if not wanted or row.name in wanted]
        except BrokerError as error:
            result.error_code = error.code
            result.error_message = error.message
    return response


def _refusal(request: DescribeConfigsRequest) -> BrokerError | None:
    try:
        check_count(ConfigResource(each.resource_type, each.resource_name) for each in request.resources)
    except BrokerError as error:
        return error.to_keep()
    return None


def _rows(resource: ConfigResource, node: Node) -> list[ConfigRow]:
    settings = configs_of(resource, node.image, node.broker_id)
    layers = node.config.layers
    match settings.type:
        case ResourceType.TOPIC:
            return describe_topic(settings.current, layers)
        case ResourceType.BROKER if settings.broker_id is None:
            return describe_cluster_default(settings.current, layers.static)
        case ResourceType.BROKER:
            return describe_broker(layers)
        case ResourceType.BROKER_LOGGER:
            return describe_loggers(settings.current)
        case ResourceType.CLIENT_METRICS:
            return describe_client_metrics(settings.current)
        case ResourceType.GROUP:
            return describe_group(settings.current, layers)


def _shown(row: ConfigRow, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    shown = DescribeConfigsResourceResult(
        name=row.name,
        value=row.value,
        read_only=row.read_only,
        config_source=row.source,
        is_sensitive=row.definition.sensitive,
        config_type=row.definition.type,
    )
    if request.include_synonyms:
        shown.synonyms = [
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in row.synonyms
        ]
    if request.include_documentation:
        shown.documentation = row.definition.doc
    return shown
