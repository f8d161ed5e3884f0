"""Users and ACLs of any Kafka cluster: the part of the admin client that decides who may do what.

`WireClient` lists them. Passwords go to librdkafka, which salts them; they are in no message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.client.admin import Admin
from penstock.core.acls import AclBinding, AclOperation, AclPermission, PatternType, ResourcePattern, ResourceType
from penstock.core.credentials import SCRAM_ITERATIONS_MIN, ScramMechanism
from penstock.security.acl_filters import AclFilter


class SecurityAdmin(Admin):
    def create_acls(self, bindings: Sequence[AclBinding]) -> None:
        """An ACL that exists already is no error."""
        api = self._api
        requests = [
            api.AclBinding(
                api.ResourceType(int(binding.pattern.resource_type)),
                binding.pattern.name,
                api.ResourcePatternType(int(binding.pattern.pattern_type)),
                binding.principal,
                binding.host,
                api.AclOperation(int(binding.operation)),
                api.AclPermissionType(int(binding.permission)),
            )
            for binding in bindings
        ]
        futures = self._translated("ACLs", lambda: self._client.create_acls(requests, **self._bounded()))
        for future in futures.values():
            self._answer("ACLs", future)

    def delete_acls(self, query: AclFilter) -> list[AclBinding]:
        """What was deleted."""
        wanted = self._filter(query)
        futures = self._translated("ACLs", lambda: self._client.delete_acls([wanted], **self._bounded()))
        return [_binding(found) for future in futures.values() for found in self._answer("ACLs", future)]

    def _filter(self, query: AclFilter) -> object:
        api = self._api
        return api.AclBindingFilter(
            api.ResourceType(int(query.resource_type)),
            query.name,
            api.ResourcePatternType(int(query.pattern_type)),
            query.principal,
            query.host,
            api.AclOperation(int(query.operation)),
            api.AclPermissionType(int(query.permission)),
        )

    def set_user(
        self, user: str, mechanism: ScramMechanism, password: str, iterations: int = SCRAM_ITERATIONS_MIN
    ) -> None:
        """Creates the user, or changes its password for this mechanism."""
        api = self._api
        info = api.ScramCredentialInfo(api.ScramMechanism(int(mechanism)), iterations)
        self._alter_user(user, api.UserScramCredentialUpsertion(user, info, password.encode()))

    def delete_user(self, user: str, mechanism: ScramMechanism) -> None:
        api = self._api
        self._alter_user(user, api.UserScramCredentialDeletion(user, api.ScramMechanism(int(mechanism))))

    def _alter_user(self, user: str, alteration: object) -> None:
        futures = self._translated(
            f"user '{user}'", lambda: self._client.alter_user_scram_credentials([alteration], **self._bounded())
        )
        self._answer(f"user '{user}'", futures[user])


def _binding(found: Any) -> AclBinding:
    return AclBinding(
        ResourcePattern(
            ResourceType(int(found.restype.value)),
            str(found.name),
            PatternType(int(found.resource_pattern_type.value)),
        ),
        str(found.principal),
        str(found.host),
        AclOperation(int(found.operation.value)),
        AclPermission(int(found.permission_type.value)),
    )
