"""IncrementalAlterConfigs: sets, resets, appends to and subtracts from single settings (KIP-339). Versions: 0 and 1."""

from __future__ import annotations

from penstock.broker.config_resources import ConfigResource, NewConfigs, ResourceSettings, change_settings
from penstock.broker.request_context import RequestContext
from penstock.metadata.config_changes import ConfigOperation, change_broker_config, change_topic_config
from penstock.protocol.definitions.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def handle(request: IncrementalAlterConfigsRequest, context: RequestContext) -> IncrementalAlterConfigsResponse:
    wanted = [
        (ConfigResource(resource.resource_type, resource.resource_name), _changes(resource.configs))
        for resource in request.resources
    ]
    outcomes = change_settings(context.node, wanted, validate_only=request.validate_only)
    response = IncrementalAlterConfigsResponse()
    for (resource, _), error in zip(wanted, outcomes, strict=True):
        result = AlterConfigsResourceResponse(resource_type=resource.type, resource_name=resource.name)
        if error is not None:
            result.error_code = error.code
            result.error_message = error.message
        response.responses.append(result)
    return response


def _changes(configs: list[AlterableConfig]) -> NewConfigs:
    operations = [ConfigOperation(config.name, config.config_operation, config.value) for config in configs]

    def new_configs(settings: ResourceSettings) -> dict[str, str]:
        node = settings.node
        if settings.topic is not None:
            return change_topic_config(settings.current, operations, node.inherited_topic_config)
        per_broker = settings.broker_id is not None
        return change_broker_config(settings.current, operations, node.config, per_broker=per_broker)

    return new_configs
