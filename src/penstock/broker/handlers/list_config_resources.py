"""ListConfigResources: the names that have settings, by kind (KIP-1142).

Version 0 knew client metrics only. From version 1 an empty list of kinds asks for all of
them, and an unknown kind is UNSUPPORTED_VERSION. Versions: 0 and 1.
"""

from __future__ import annotations

from typing import Final

from penstock.broker.config_resources import ResourceType
from penstock.broker.request_context import RequestContext
from penstock.core.acls import AclOperation
from penstock.metadata.image import ClusterImage
from penstock.protocol.definitions.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from penstock.protocol.error_codes import ErrorCode

KINDS_SINCE: Final = 1


def handle(request: ListConfigResourcesRequest, context: RequestContext) -> ListConfigResourcesResponse:
    if not context.access.may_with_cluster(AclOperation.DESCRIBE_CONFIGS):
        return ListConfigResourcesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    known = frozenset(ResourceType)
    if context.api_version < KINDS_SINCE:
        wanted = frozenset({int(ResourceType.CLIENT_METRICS)})
    else:
        wanted = frozenset(request.resource_types) or known
    if not wanted <= known:
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in sorted(wanted)
            for name in _names(kind, context.node.image)
        ]
    )


def _names(kind: int, image: ClusterImage) -> list[str]:
    if kind == ResourceType.TOPIC:
        return list(image.topics)
    if kind == ResourceType.CLIENT_METRICS:
        return list(image.client_metrics)
    if kind == ResourceType.GROUP:
        return list(image.group_configs)
    return [str(broker_id) for broker_id in image.brokers]
