"""DescribeUserScramCredentials: users and their mechanisms, never a key or a salt. Version 0 (KIP-554)."""

from __future__ import annotations

from collections import Counter

from penstock.broker.request_context import RequestContext
from penstock.core.acls import AclOperation
from penstock.protocol.definitions.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from penstock.protocol.error_codes import BrokerError, ErrorCode


def handle(
    request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    try:
        context.access.check_cluster(AclOperation.DESCRIBE)
    except BrokerError as error:
        return DescribeUserScramCredentialsResponse(error_code=error.code, error_message=error.message)
    known: dict[str, list[CredentialInfo]] = {}
    for (user, mechanism), credential in sorted(context.node.image.scram_credentials.items()):
        known.setdefault(user, []).append(CredentialInfo(mechanism=mechanism, iterations=credential.iterations))
    # No users and an empty list both ask for all of them, as in Kafka.
    times_named = Counter(user.name for user in request.users or ()) or Counter(list(known))
    return DescribeUserScramCredentialsResponse(
        results=[_described(user, times, known.get(user)) for user, times in times_named.items()]
    )


def _described(user: str, times: int, credentials: list[CredentialInfo] | None) -> DescribeUserScramCredentialsResult:
    if times > 1:
        return _refused(user, ErrorCode.DUPLICATE_RESOURCE, "The user may be named once only.")
    if credentials is None:
        return _refused(user, ErrorCode.RESOURCE_NOT_FOUND, "The user has no SCRAM credential.")
    return DescribeUserScramCredentialsResult(user=user, credential_infos=credentials)


def _refused(user: str, code: ErrorCode, message: str) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(user=user, error_code=code, error_message=message)
