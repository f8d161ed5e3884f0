"""AlterConfigs: replaces all of a resource's own settings; what is not named goes back to its inherited value.

Deprecated in Kafka in favour of IncrementalAlterConfigs, and still what older clients send. Levels of loggers
cannot be replaced together: INVALID_REQUEST, as in Kafka. Versions: 0 to 2.
"""

from __future__ import annotations

from penstock.broker.config_resources import ConfigResource, NewConfigs, ResourceConfigs, ResourceType, alter_configs
from penstock.broker.deferred import Barrier, Deferred
from penstock.broker.request_context import RequestContext
from penstock.metadata.broker_config import BrokerConfig
from penstock.metadata.config_changes import (
    replace_broker_config,
    replace_client_metrics,
    replace_group_config,
    replace_topic_config,
)
from penstock.metadata.topic_config import TopicConfig
from penstock.protocol.definitions.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from penstock.protocol.error_codes import BrokerError, ErrorCode


def handle(request: AlterConfigsRequest, context: RequestContext) -> Deferred:
    wanted = [
        (ConfigResource(resource.resource_type, resource.resource_name), _replacement(resource.configs))
        for resource in request.resources
    ]
    answer = Barrier()

    def done(outcomes: list[BrokerError | None]) -> None:
        response = AlterConfigsResponse()
        for (resource, _), error in zip(wanted, outcomes, strict=True):
            result = AlterConfigsResourceResponse(resource_type=resource.type, resource_name=resource.name)
            if error is not None:
                result.error_code = error.code
                result.error_message = error.message
            response.responses.append(result)
        answer.complete(response)

    alter_configs(context, wanted, done, validate_only=request.validate_only)
    return answer


def _replacement(configs: list[AlterableConfig]) -> NewConfigs:
    wanted = [(config.name, config.value) for config in configs]

    def new_configs(settings: ResourceConfigs, broker: BrokerConfig) -> dict[str, str]:
        match settings.type:
            case ResourceType.TOPIC:
                return replace_topic_config(wanted, TopicConfig.inherited(broker.layers))
            case ResourceType.BROKER:
                return replace_broker_config(wanted, broker, per_broker=settings.broker_id is not None)
            case ResourceType.GROUP:
                return replace_group_config(wanted, broker)
            case ResourceType.CLIENT_METRICS:
                return replace_client_metrics(wanted)
            case ResourceType.BROKER_LOGGER:
                raise BrokerError(ErrorCode.INVALID_REQUEST, "Use IncrementalAlterConfigs for the levels of loggers.")

    return new_configs
