"""DescribeConfigs: settings of topics and of this broker, each with its source and what it overrides.

An empty broker name stands for the settings that were given to all brokers at run time. Loggers, client metrics and
groups have no settings here and are INVALID_REQUEST. Versions: 1 to 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.config_resources import ConfigResource, check_access, configs_of
from penstock.broker.request_context import RequestContext
from penstock.core.acls import AclOperation
from penstock.metadata.config_description import (
    ConfigRow,
    describe_broker,
    describe_cluster_default,
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
            named = ConfigResource(resource.resource_type, resource.resource_name)
            check_access(context.access, AclOperation.DESCRIBE_CONFIGS, named)
            rows = _rows(named, context.node)
            result.configs = [_shown(row, request) for row in rows if not wanted or row.name in wanted]
        except BrokerError as error:
            result.error_code = error.code
            result.error_message = error.message
    return response


def _rows(resource: ConfigResource, node: Node) -> list[ConfigRow]:
    settings = configs_of(resource, node.image, node.broker_id)
    if settings.topic is not None:
        return describe_topic(settings.current, node.config.layers)
    if settings.broker_id is None:
        return describe_cluster_default(settings.current)
    return describe_broker(node.config.layers)


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
