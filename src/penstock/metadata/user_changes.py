"""Decisions about SCRAM users: AlterUserScramCredentials (KIP-554), each user by itself.

A user is changed completely or not at all: with an error in one of its parts, none of them takes effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.core.credentials import ScramCredential, ScramMechanism
from penstock.core.limits import SCRAM_CREDENTIALS_MAX
from penstock.metadata.changes import ScramCredentialRemoved, ScramCredentialSet
from penstock.metadata.image import ClusterImage
from penstock.protocol.error_codes import BrokerError, ErrorCode


class Alteration(NamedTuple):
    """One part of a request: a new credential, or with None the removal of the one that exists."""

    user: str
    mechanism: ScramMechanism
    credential: ScramCredential | None


class UserChanges(NamedTuple):
    changes: list[ScramCredentialSet | ScramCredentialRemoved]
    refused: dict[str, BrokerError]


def alter_users(image: ClusterImage, alterations: Sequence[Alteration]) -> UserChanges:
    """The changes of all users that can be made, and the refusals of the others."""
    by_user: dict[str, list[Alteration]] = {}
    for alteration in alterations:
        by_user.setdefault(alteration.user, []).append(alteration)
    result = UserChanges([], {})
    room = SCRAM_CREDENTIALS_MAX - len(image.scram_credentials)
    for user, wanted in by_user.items():
        try:
            changes = [_change(image, alteration) for alteration in _without_contradiction(wanted)]
            room -= sum(
                each.credential is not None and (user, each.mechanism) not in image.scram_credentials for each in wanted
            )
            if room < 0:
                raise BrokerError(
                    ErrorCode.POLICY_VIOLATION, f"The cluster has {SCRAM_CREDENTIALS_MAX} SCRAM credentials at most."
                )
        except BrokerError as error:
            result.refused[user] = error.to_keep()
        else:
            result.changes.extend(changes)
    return result


def _without_contradiction(wanted: list[Alteration]) -> list[Alteration]:
    if len({alteration.mechanism for alteration in wanted}) < len(wanted):
        raise BrokerError(
            ErrorCode.DUPLICATE_RESOURCE, "A user's credential for one mechanism cannot be altered twice in a request."
        )
    return wanted


def _change(image: ClusterImage, alteration: Alteration) -> ScramCredentialSet | ScramCredentialRemoved:
    user, mechanism, credential = alteration
    if credential is not None:
        return ScramCredentialSet(user, credential)
    if (user, mechanism) not in image.scram_credentials:
        raise BrokerError(ErrorCode.RESOURCE_NOT_FOUND, f"The user {user!r} has no credential for {mechanism}.")
    return ScramCredentialRemoved(user, mechanism)
