"""DescribeAcls: the ACLs that a filter matches, by resource. Versions: 1 to 3.

Without `authorizer.class.name` the answer is SECURITY_DISABLED, as in Kafka.
"""

from __future__ import annotations

from penstock.broker.request_context import RequestContext
from penstock.core.acls import AclOperation, ResourcePattern
from penstock.metadata.acl_changes import matching_acls
from penstock.protocol.definitions.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from penstock.protocol.error_codes import BrokerError
from penstock.security.acl_filters import parse_filter


def handle(request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
    try:
        context.check_authorizer()
        context.access.check_cluster(AclOperation.DESCRIBE)
        wanted = parse_filter(
            request.resource_type_filter,
            request.resource_name_filter,
            request.pattern_type_filter,
            request.principal_filter,
            request.host_filter,
            request.operation,
            request.permission_type,
        )
    except BrokerError as error:
        return DescribeAclsResponse(error_code=error.code, error_message=error.message)
    resources: dict[ResourcePattern, DescribeAclsResource] = {}
    for binding in matching_acls(context.node.image, wanted.matches):
        resource = resources.get(binding.pattern)
        if resource is None:
            resource = resources[binding.pattern] = DescribeAclsResource(
                resource_type=binding.pattern.resource_type,
                resource_name=binding.pattern.name,
                pattern_type=binding.pattern.pattern_type,
            )
        resource.acls.append(
            AclDescription(
                principal=binding.principal,
                host=binding.host,
                operation=binding.operation,
                permission_type=binding.permission,
            )
        )
    return DescribeAclsResponse(resources=list(resources.values()))
