"""AlterConfigs: replaces all of a resource's own settings; what is not named goes back to its inherited value.

Deprecated in Kafka in favour of IncrementalAlterConfigs, and still what older clients send. Versions: 0 to 2.
"""

from __future__ import annotations

from penstock.broker.config_resources import ConfigResource, NewConfigs, ResourceConfigs, alter_configs
from penstock.broker.deferred import Barrier, Deferred
from penstock.broker.request_context import RequestContext
from penstock.metadata.broker_config import BrokerConfig
from penstock.metadata.config_changes import replace_broker_config, replace_topic_config
from penstock.metadata.topic_config import TopicConfig
from penstock.protocol.definitions.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from penstock.protocol.error_codes import BrokerError


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
        if settings.topic is not None:
            return replace_topic_config(wanted, TopicConfig.inherited(broker.layers))
        return replace_broker_config(wanted, broker, per_broker=settings.broker_id is not None)

    return new_configs
