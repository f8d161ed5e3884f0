"""IncrementalAlterConfigs: sets, resets, appends to and subtracts from single settings (KIP-339). Versions: 0 and 1."""

from __future__ import annotations

from penstock.broker.config_resources import ConfigResource, NewConfigs, ResourceConfigs, alter_configs
from penstock.broker.deferred import Barrier, Deferred
from penstock.broker.request_context import RequestContext
from penstock.metadata.broker_config import BrokerConfig
from penstock.metadata.config_changes import ConfigOperation, change_broker_config, change_topic_config
from penstock.metadata.topic_config import TopicConfig
from penstock.protocol.definitions.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from penstock.protocol.error_codes import BrokerError


def handle(request: IncrementalAlterConfigsRequest, context: RequestContext) -> Deferred:
    wanted = [
        (ConfigResource(resource.resource_type, resource.resource_name), _changes(resource.configs))
        for resource in request.resources
    ]
    answer = Barrier()

    def done(outcomes: list[BrokerError | None]) -> None:
        response = IncrementalAlterConfigsResponse()
        for (resource, _), error in zip(wanted, outcomes, strict=True):
            result = AlterConfigsResourceResponse(resource_type=resource.type, resource_name=resource.name)
            if error is not None:
                result.error_code = error.code
                result.error_message = error.message
            response.responses.append(result)
        answer.complete(response)

    alter_configs(context, wanted, done, validate_only=request.validate_only)
    return answer


def _changes(configs: list[AlterableConfig]) -> NewConfigs:
    operations = [ConfigOperation(config.name, config.config_operation, config.value) for config in configs]

    def new_configs(settings: ResourceConfigs, broker: BrokerConfig) -> dict[str, str]:
        if settings.topic is not None:
            return change_topic_config(settings.current, operations, TopicConfig.inherited(broker.layers))
        per_broker = settings.broker_id is not None
        return change_broker_config(settings.current, operations, broker, per_broker=per_broker)

    return new_configs
