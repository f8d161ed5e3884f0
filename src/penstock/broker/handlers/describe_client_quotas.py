"""DescribeClientQuotas: the quotas that were set, by entities that a filter matches (KIP-546). Versions: 0 and 1."""

from __future__ import annotations

from penstock.broker.request_context import RequestContext
from penstock.core.acls import AclOperation
from penstock.metadata.client_quotas import QuotaFilter, matching_quotas, parts_of
from penstock.protocol.definitions.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from penstock.protocol.error_codes import BrokerError


def handle(request: DescribeClientQuotasRequest, context: RequestContext) -> DescribeClientQuotasResponse:
    quotas = context.node.image.client_quotas
    filters = [QuotaFilter(each.entity_type, each.match_type, each.match) for each in request.components]
    try:
        context.access.check_cluster(AclOperation.DESCRIBE_CONFIGS)
        entities = matching_quotas(quotas, filters, strict=request.strict)
    except BrokerError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message)
    return DescribeClientQuotasResponse(
        entries=[
            EntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in parts_of(entity)],
                values=[ValueData(key=key, value=value) for key, value in sorted(quotas[entity].items())],
            )
            for entity in sorted(entities, key=str)
        ]
    )
