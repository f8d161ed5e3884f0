"""AlterUserScramCredentials: users of SCRAM are set and removed, each completely or not at all. Version 0 (KIP-554).

The request carries salted passwords. They become the two keys that SCRAM needs here, and are not kept.
"""

from __future__ import annotations

from typing import Final

from penstock.broker.deferred import Barrier, Deferred
from penstock.broker.request_context import RequestContext
from penstock.core.acls import AclOperation
from penstock.core.credentials import SCRAM_ITERATIONS_MAX, SCRAM_ITERATIONS_MIN, ScramMechanism
from penstock.metadata.changes import Change
from penstock.metadata.image import ClusterImage
from penstock.metadata.user_changes import Alteration, alter_users
from penstock.protocol.definitions.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.security.sasl_server import scram_credential_of

_Parts = list[ScramCredentialDeletion | ScramCredentialUpsertion]
_USER_CHARACTERS_MAX: Final = 1000
_SALT_BYTES_MAX: Final = 1024


def handle(
    request: AlterUserScramCredentialsRequest, context: RequestContext
) -> AlterUserScramCredentialsResponse | Deferred:
    parts: _Parts = [*request.deletions, *request.upsertions]
    users = list(dict.fromkeys(each.name for each in parts))
    try:
        context.access.check_cluster(AclOperation.ALTER)
    except BrokerError as error:
        return AlterUserScramCredentialsResponse(results=[_result(user, error) for user in users])
    alterations, refused = _parsed(parts)
    answer = Barrier()
    not_possible: dict[str, BrokerError] = {}

    def decide(image: ClusterImage) -> list[Change]:
        nonlocal not_possible
        decision = alter_users(image, [each for each in alterations if each.user not in refused])
        not_possible = decision.refused
        return list(decision.changes)

    def decided(failure: BrokerError | None) -> None:
        results = [_result(user, refused.get(user) or not_possible.get(user) or failure) for user in users]
        answer.complete(AlterUserScramCredentialsResponse(results=results))

    context.node.propose(decide, decided)
    return answer


def _parsed(parts: _Parts) -> tuple[list[Alteration], dict[str, BrokerError]]:
    """What the request asks for, and the users for whom it cannot be asked."""
    alterations: list[Alteration] = []
    refused: dict[str, BrokerError] = {}
    for each in parts:
        try:
            _check_user(each.name)
            mechanism = _mechanism(each.mechanism)
            credential = None
            if isinstance(each, ScramCredentialUpsertion):
                _check_credential(each, mechanism)
                credential = scram_credential_of(
                    mechanism, bytes(each.salt), each.iterations, bytes(each.salted_password)
                )
            alterations.append(Alteration(each.name, mechanism, credential))
        except BrokerError as error:
            refused.setdefault(each.name, error.to_keep())
    return alterations, refused


def _check_user(user: str) -> None:
    if not user:
        raise BrokerError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "The user's name is empty.")
    if len(user) > _USER_CHARACTERS_MAX:
        raise BrokerError(
            ErrorCode.UNACCEPTABLE_CREDENTIAL, f"The user's name is longer than {_USER_CHARACTERS_MAX} characters."
        )


def _mechanism(number: int) -> ScramMechanism:
    try:
        return ScramMechanism(number)
    except ValueError:
        raise BrokerError(
            ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"There is no SCRAM mechanism with the number {number}."
        ) from None


def _check_credential(wanted: ScramCredentialUpsertion, mechanism: ScramMechanism) -> None:
    if not SCRAM_ITERATIONS_MIN <= wanted.iterations <= SCRAM_ITERATIONS_MAX:
        raise BrokerError(
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            f"{wanted.iterations} iterations; from {SCRAM_ITERATIONS_MIN} to {SCRAM_ITERATIONS_MAX} are accepted.",
        )
    if not 0 < len(wanted.salt) <= _SALT_BYTES_MAX:
        raise BrokerError(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"The salt must have 1 to {_SALT_BYTES_MAX} bytes.")
    if len(wanted.salted_password) != mechanism.key_bytes:
        raise BrokerError(
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            f"The salted password of {mechanism} must have {mechanism.key_bytes} bytes.",
        )


def _result(user: str, error: BrokerError | None) -> AlterUserScramCredentialsResult:
    if error is None:
        return AlterUserScramCredentialsResult(user=user)
    return AlterUserScramCredentialsResult(user=user, error_code=error.code, error_message=error.message)
