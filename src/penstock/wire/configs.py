"""The settings of topics, as their brokers apply them."""

from __future__ import annotations

from typing import Final

from penstock.protocol.definitions.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from penstock.protocol.error_codes import ErrorCode, known_code
from penstock.wire.cluster import Cluster
from penstock.wire.connection import Connection
from penstock.wire.errors import require_success

_TOPIC: Final = 2


def topic_config(cluster: Cluster, topic: str, name: str, timeout_s: float | None) -> str | None:
    """None if the broker does not say: it has no such topic or setting, or the client may not know."""
    resource = DescribeConfigsResource(resource_type=_TOPIC, resource_name=topic, configuration_keys=[name])
    request = DescribeConfigsRequest(resources=[resource])

    def attempt(connection: Connection) -> str | None:
        response: DescribeConfigsResponse = connection.ask(request, connection.version_for(DescribeConfigsRequest))
        for result in response.results:
            code = known_code(result.error_code)
            if code.retriable and code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                require_success(result.error_code, f"settings of topic '{topic}'", result.error_message)
            for config in result.configs:
                if config.name == name:
                    return config.value
        return None

    return cluster.ask_any(f"settings of topic '{topic}'", attempt, timeout_s)
