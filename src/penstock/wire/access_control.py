"""ACLs and SCRAM users, as the brokers list them.

librdkafka 2.16 shows an empty list of ACLs to a client that may not see them, and crashes where it may not see users.
"""

from __future__ import annotations

from penstock.core.acls import AclBinding, AclOperation, AclPermission, PatternType, ResourcePattern, ResourceType
from penstock.core.credentials import ScramMechanism
from penstock.protocol.definitions.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from penstock.protocol.definitions.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from penstock.security.acl_filters import AclFilter
from penstock.wire.cluster import Cluster
from penstock.wire.connection import Connection
from penstock.wire.errors import require_success


def describe_acls(cluster: Cluster, wanted: AclFilter, timeout_s: float | None) -> list[AclBinding]:
    request = DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )

    def attempt(connection: Connection) -> list[AclBinding]:
        response: DescribeAclsResponse = connection.ask(request, connection.version_for(DescribeAclsRequest))
        require_success(response.error_code, "ACLs", response.error_message)
        return [
            AclBinding(
                ResourcePattern(
                    ResourceType(resource.resource_type), resource.resource_name, PatternType(resource.pattern_type)
                ),
                acl.principal,
                acl.host,
                AclOperation(acl.operation),
                AclPermission(acl.permission_type),
            )
            for resource in response.resources
            for acl in resource.acls
        ]

    return cluster.ask_any("ACLs", attempt, timeout_s)


def describe_users(cluster: Cluster, timeout_s: float | None) -> dict[str, dict[ScramMechanism, int]]:
    """Iterations by user and mechanism."""
    request = DescribeUserScramCredentialsRequest(users=None)

    def attempt(connection: Connection) -> dict[str, dict[ScramMechanism, int]]:
        version = connection.version_for(DescribeUserScramCredentialsRequest)
        response: DescribeUserScramCredentialsResponse = connection.ask(request, version)
        require_success(response.error_code, "users", response.error_message)
        return {
            result.user: {ScramMechanism(info.mechanism): info.iterations for info in result.credential_infos}
            for result in sorted(response.results, key=lambda result: result.user)
        }

    return cluster.ask_any("users", attempt, timeout_s)
