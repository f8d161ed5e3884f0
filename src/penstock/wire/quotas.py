"""Quotas of users, client ids and IP addresses, as the cluster holds them (KIP-546)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from penstock.core.quotas import QuotaEntity
from penstock.protocol.definitions.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from penstock.protocol.definitions.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
)
from penstock.wire.cluster import Cluster
from penstock.wire.connection import Connection
from penstock.wire.errors import require_success

_FIELDS: Final = {"user": "user", "client-id": "client_id", "ip": "ip"}


def client_quotas(cluster: Cluster, timeout_s: float | None) -> dict[QuotaEntity, dict[str, float]]:
    """All quotas that are set, by whom they are for."""
    request = DescribeClientQuotasRequest()

    def attempt(connection: Connection) -> dict[QuotaEntity, dict[str, float]]:
        version = connection.version_for(DescribeClientQuotasRequest)
        response: DescribeClientQuotasResponse = connection.ask(request, version)
        require_success(response.error_code, "quotas", response.error_message)
        return {
            _entity(entry.entity): {quota.key: quota.value for quota in entry.values}
            for entry in response.entries or ()
        }

    return cluster.ask_any("quotas", attempt, timeout_s)


def alter_client_quotas(
    cluster: Cluster,
    entity: QuotaEntity,
    changes: Mapping[str, float],
    removals: Iterable[str],
    timeout_s: float | None,
) -> None:
    """All changes and removals, or none of them."""
    operations = [OpData(key=key, value=value) for key, value in changes.items()]
    operations += [OpData(key=key, remove=True) for key in removals]
    parts = [
        RequestEntityData(entity_type=kind, entity_name=name or None)
        for kind, field in _FIELDS.items()
        if (name := getattr(entity, field)) is not None
    ]
    request = AlterClientQuotasRequest(entries=[RequestEntryData(entity=parts, ops=operations)])

    def attempt(connection: Connection) -> None:
        version = connection.version_for(AlterClientQuotasRequest)
        response: AlterClientQuotasResponse = connection.ask(request, version)
        for entry in response.entries:
            require_success(entry.error_code, f"quota of {entity}", entry.error_message)

    cluster.ask_any(f"quota of {entity}", attempt, timeout_s)


def _entity(parts: Iterable[EntityData]) -> QuotaEntity:
    return QuotaEntity(**{_FIELDS[part.entity_type]: part.entity_name or "" for part in parts})
