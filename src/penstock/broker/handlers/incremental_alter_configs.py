"""IncrementalAlterConfigs: sets, resets, appends to and subtracts from single settings (KIP-339). Versions: 0 and 1.

The levels of loggers change in this process only and are not stored, as in Kafka (KIP-412).
"""

from __future__ import annotations

from penstock.broker.config_resources import ConfigResource, NewConfigs, ResourceConfigs, ResourceType, alter_configs
from penstock.broker.deferred import Barrier, Deferred
from penstock.broker.logger_levels import changed_levels
from penstock.broker.request_context import RequestContext
from penstock.metadata.broker_config import BrokerConfig
from penstock.metadata.config_changes import (
    ConfigOperation,
    change_broker_config,
    change_client_metrics,
    change_group_config,
    change_topic_config,
)
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
        current = settings.current
        match settings.type:
            case ResourceType.TOPIC:
                return change_topic_config(current, operations, TopicConfig.inherited(broker.layers))
            case ResourceType.BROKER:
                per_broker = settings.broker_id is not None
                return change_broker_config(current, operations, broker, per_broker=per_broker)
            case ResourceType.GROUP:
                return change_group_config(current, operations, broker)
            case ResourceType.CLIENT_METRICS:
                return change_client_metrics(current, operations)
            case ResourceType.BROKER_LOGGER:
                return changed_levels(current, operations)

    return new_configs
