"""Decisions about quotas: what AlterClientQuotas may change, and which ones DescribeClientQuotas asks for (KIP-546).

An entry of a request is applied whole or not at all. As in Kafka, everything that is wrong with it is INVALID_REQUEST.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from ipaddress import ip_address
from typing import Final, NamedTuple

from penstock.core.quotas import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    DEFAULT,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    QuotaEntity,
)
from penstock.metadata.config_definition import INT_MAX, LONG_MAX
from penstock.protocol.error_codes import BrokerError, ErrorCode

Quotas = Mapping[QuotaEntity, Mapping[str, float]]

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
_FIELDS: Final = {USER: "user", CLIENT_ID: "client_id", IP: "ip"}
# Whole numbers up to a limit; None for numbers with a fraction.
_OF_CLIENTS: Final[dict[str, int | None]] = {
    PRODUCER_BYTE_RATE: LONG_MAX,
    CONSUMER_BYTE_RATE: LONG_MAX,
    REQUEST_PERCENTAGE: None,
    CONTROLLER_MUTATION_RATE: None,
}
_OF_ADDRESSES: Final[dict[str, int | None]] = {CONNECTION_CREATION_RATE: INT_MAX}
_ROUNDING: Final = 1e-6


class QuotaOperation(NamedTuple):
    key: str
    value: float
    remove: bool


class MatchType(IntEnum):
    """DescribeClientQuotas' numbers."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


class QuotaFilter(NamedTuple):
    """`match_type` is the number from the wire, which need not be a `MatchType`."""

    entity_type: str
    match_type: int
    match: str | None


def quota_entity(parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """The entity of a request: kinds with a name each, or None for the default. Raises BrokerError."""
    named: dict[str, str] = {}
    for kind, name in parts:
        if kind not in _FIELDS:
            raise _invalid(f"There are no quotas for {kind[:100]!r}; use user, client-id or ip.")
        if _FIELDS[kind] in named:
            raise _invalid(f"{kind} is given twice.")
        if name == "":
            raise _invalid(f"The {kind} has no name; leave the name out for the default.")
        if kind == IP and name is not None:
            _check_address(name)
        named[_FIELDS[kind]] = DEFAULT if name is None else name
    if not named:
        raise _invalid("Name a user, a client id or an IP address.")
    if _FIELDS[IP] in named and len(named) > 1:
        raise _invalid("A quota is for an IP address, or for a user and client id, not for both.")
    return QuotaEntity(**named)


def parts_of(entity: QuotaEntity) -> list[tuple[str, str | None]]:
    """The reverse of `quota_entity`."""
    return [
        (kind, name or None)
        for kind, name in ((USER, entity.user), (CLIENT_ID, entity.client_id), (IP, entity.ip))
        if name is not None
    ]


def changed_quotas(
    entity: QuotaEntity, current: Mapping[str, float], operations: Sequence[QuotaOperation]
) -> dict[str, float]:
    """All quotas of the entity afterwards. Raises BrokerError, and then nothing of the entry is applied."""
    known = _OF_CLIENTS if entity.ip is None else _OF_ADDRESSES
    quotas = dict(current)
    for key, value, remove in operations:
        if key not in known:
            raise _invalid(f"{key[:100]!r} cannot be limited for {entity}; use {' or '.join(known)}.")
        if remove:
            quotas.pop(key, None)
        else:
            quotas[key] = _checked(key, value, known[key])
    return quotas


def _checked(key: str, value: float, whole_max: int | None) -> float:
    if not value > 0 or math.isinf(value):
        raise _invalid(f"{key} must be greater than 0, not {value:g}.")
    if whole_max is None:
        return value
    if abs(value - round(value)) > _ROUNDING:
        raise _invalid(f"{key} must be a whole number, not {value:g}.")
    if value > whole_max:
        raise _invalid(f"{key} must not exceed {whole_max}.")
    return float(round(value))


def matching_quotas(quotas: Quotas, filters: Sequence[QuotaFilter], *, strict: bool) -> list[QuotaEntity]:
    """The entities that all filters match; with `strict` those that have no other kind beside. Raises BrokerError."""
    kinds = [each.entity_type for each in filters]
    for each in filters:
        _check_filter(each)
    if len(set(kinds)) < len(kinds):
        raise _invalid("A kind of entity may be named once only.")
    if IP in kinds and len(kinds) > 1:
        raise _invalid("An IP address has no quotas together with a user or client id.")
    return [
        entity
        for entity in quotas
        if all(_matches(each, entity) for each in filters)
        and not (strict and {kind for kind, _ in parts_of(entity)} != set(kinds))
    ]


def _check_filter(wanted: QuotaFilter) -> None:
    if wanted.entity_type not in _FIELDS:
        code = ErrorCode.INVALID_REQUEST if wanted.entity_type == "" else ErrorCode.UNSUPPORTED_VERSION
        raise BrokerError(code, f"There are no quotas for {wanted.entity_type[:100]!r}; use user, client-id or ip.")
    if wanted.match_type not in MatchType.__members__.values():
        raise _invalid(f"{wanted.match_type} is not a known way to match.")
    if (wanted.match is not None) != (wanted.match_type == MatchType.EXACT):
        raise _invalid("A name belongs to an exact match, and to no other.")


def _matches(wanted: QuotaFilter, entity: QuotaEntity) -> bool:
    name: str | None = getattr(entity, _FIELDS[wanted.entity_type])
    if wanted.match_type == MatchType.EXACT:
        return name == wanted.match and name != DEFAULT
    if wanted.match_type == MatchType.DEFAULT:
        return name == DEFAULT
    return name is not None


def _check_address(name: str) -> None:
    try:
        ip_address(name)
    except ValueError:
        raise _invalid(f"{name[:100]!r} is not an IP address.") from None


def _invalid(message: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_REQUEST, message)
