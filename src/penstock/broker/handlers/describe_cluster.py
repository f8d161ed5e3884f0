"""DescribeCluster: the cluster's id, its brokers at the client's own listener, and its controller.

Asked for the controllers' own endpoints (version 1), a broker answers MISMATCHED_ENDPOINT_TYPE, as Kafka's does. Since
version 2 a client may ask for the fenced brokers too: those that have registered and are not live. Versions: 0 to 2.
"""

from __future__ import annotations

from typing import Final

from penstock.broker.authorized_operations import cluster_operations
from penstock.broker.request_context import RequestContext
from penstock.protocol.definitions.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from penstock.protocol.error_codes import ErrorCode

BROKER_ENDPOINTS: Final = 1
CONTROLLER_ENDPOINTS: Final = 2


def handle(request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    if request.endpoint_type == CONTROLLER_ENDPOINTS:
        return _refused(request, ErrorCode.MISMATCHED_ENDPOINT_TYPE)
    if request.endpoint_type != BROKER_ENDPOINTS:
        return _refused(request, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)
    image = context.node.image
    response = DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        brokers=[
            DescribeClusterBroker(broker_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            for broker, endpoint in image.endpoints(context.connection.listener_name)
        ],
    )
    if request.include_fenced_brokers:
        response.brokers += _fenced(context)
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(context.access)
    return response


def _fenced(context: RequestContext) -> list[DescribeClusterBroker]:
    """By the address of the last registration."""
    image = context.node.image
    found = []
    for known in image.known_brokers.values():
        endpoint = known.endpoints.get(context.connection.listener_name)
        if known.broker_id not in image.brokers and endpoint is not None:
            found.append(
                DescribeClusterBroker(
                    broker_id=known.broker_id,
                    host=endpoint.host,
                    port=endpoint.port,
                    rack=known.rack,
                    is_fenced=True,
                )
            )
    return found


def _refused(request: DescribeClusterRequest, code: ErrorCode) -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=code, error_message=code.text, endpoint_type=request.endpoint_type)
