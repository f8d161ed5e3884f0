"""AlterClientQuotas: sets and removes quotas of users, client ids and IP addresses (KIP-546).

Each entry is applied whole or refused whole, by itself. Versions: 0 and 1.
"""

from __future__ import annotations

from penstock.broker.deferred import Barrier, Deferred
from penstock.broker.request_context import RequestContext
from penstock.core import limits
from penstock.core.acls import AclOperation
from penstock.core.quotas import QuotaEntity
from penstock.metadata.changes import ClientQuotaChanged, DurableChange
from penstock.metadata.client_quotas import QuotaOperation, changed_quotas, quota_entity
from penstock.metadata.image import ClusterImage
from penstock.protocol.definitions.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    RequestEntryData,
    ResponseEntityData,
    ResponseEntryData,
)
from penstock.protocol.error_codes import BrokerError, ErrorCode


def handle(request: AlterClientQuotasRequest, context: RequestContext) -> Deferred:
    outcomes: list[BrokerError | None] = []
    answer = Barrier()

    def decide(image: ClusterImage) -> list[DurableChange]:
        nonlocal outcomes
        try:
            context.access.check_cluster(AclOperation.ALTER_CONFIGS)
        except BrokerError as error:
            outcomes = [error.to_keep()] * len(request.entries)
            return []
        outcomes, changes = _decide(request.entries, image)
        return [] if request.validate_only else changes

    def decided(failure: BrokerError | None) -> None:
        response = AlterClientQuotasResponse()
        for entry, outcome in zip(request.entries, outcomes or [None] * len(request.entries), strict=True):
            error = outcome or failure
            result = ResponseEntryData(
                entity=[
                    ResponseEntityData(entity_type=part.entity_type, entity_name=part.entity_name)
                    for part in entry.entity
                ]
            )
            if error is not None:
                result.error_code, result.error_message = error.code, error.message
            response.entries.append(result)
        answer.complete(response)

    context.node.propose(decide, decided)
    return answer


def _decide(
    entries: list[RequestEntryData], image: ClusterImage
) -> tuple[list[BrokerError | None], list[DurableChange]]:
    outcomes: list[BrokerError | None] = []
    changes: list[DurableChange] = []
    named: set[QuotaEntity] = set()
    for number, entry in enumerate(entries):
        try:
            if number >= limits.QUOTA_ENTRIES_MAX:
                raise BrokerError(
                    ErrorCode.POLICY_VIOLATION, f"A request may change at most {limits.QUOTA_ENTRIES_MAX} entities."
                )
            entity = quota_entity((part.entity_type, part.entity_name) for part in entry.entity)
            if entity in named:
                raise BrokerError(ErrorCode.INVALID_REQUEST, f"{entity} is named twice.")
            named.add(entity)
            operations = [QuotaOperation(each.key, each.value, each.remove) for each in entry.ops]
            quotas = changed_quotas(entity, image.client_quotas.get(entity, {}), operations)
            changes.append(ClientQuotaChanged(entity, quotas))
            outcomes.append(None)
        except BrokerError as error:
            outcomes.append(error.to_keep())
    return outcomes, changes
