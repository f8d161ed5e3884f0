"""AlterConfigs: replaces all of a resource's own settings; what is not named goes back to its inherited value.

Deprecated in Kafka in favour of IncrementalAlterConfigs, and still what older clients send. Versions: 0 to 2.
"""

from __future__ import annotations

from penstock.broker.config_resources import ConfigResource, NewConfigs, ResourceSettings, change_settings
from penstock.broker.request_context import RequestContext
from penstock.metadata.config_changes import replace_broker_config, replace_topic_config
from penstock.protocol.definitions.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def handle(request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
    wanted = [
        (ConfigResource(resource.resource_type, resource.resource_name), _replacement(resource.configs))
        for resource in request.resources
    ]
    outcomes = change_settings(context.node, wanted, validate_only=request.validate_only)
    response = AlterConfigsResponse()
    for (resource, _), error in zip(wanted, outcomes, strict=True):
        result = AlterConfigsResourceResponse(resource_type=resource.type, resource_name=resource.name)
        if error is not None:
            result.error_code = error.code
            result.error_message = error.message
        response.responses.append(result)
    return response


def _replacement(configs: list[AlterableConfig]) -> NewConfigs:
    wanted = [(config.name, config.value) for config in configs]

    def new_configs(settings: ResourceSettings) -> dict[str, str]:
        node = settings.node
        if settings.topic is not None:
            return replace_topic_config(wanted, node.inherited_topic_config)
        return replace_broker_config(wanted, node.config, per_broker=settings.broker_id is not None)

    return new_configs
