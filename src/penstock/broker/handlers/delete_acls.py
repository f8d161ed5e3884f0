"""DeleteAcls: removes what the filters match, all in one commit, and names it by filter. Versions: 1 to 3.

A filter that cannot be understood is refused by itself and removes nothing.
"""

from __future__ import annotations

from penstock.broker.deferred import Barrier, Deferred
from penstock.broker.request_context import RequestContext
from penstock.core.acls import AclBinding, AclOperation
from penstock.metadata.acl_changes import matching_acls, remove_acls
from penstock.metadata.changes import AclRemoved
from penstock.metadata.image import ClusterImage
from penstock.protocol.definitions.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from penstock.protocol.error_codes import BrokerError
from penstock.security.acl_filters import AclFilter, parse_filter


def handle(request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse | Deferred:
    try:
        context.check_authorizer()
        context.access.check_cluster(AclOperation.ALTER)
    except BrokerError as error:
        return DeleteAclsResponse(filter_results=[_refused(error) for _ in request.filters])
    wanted = [_parsed(each) for each in request.filters]
    matched: list[list[AclBinding]] = []
    answer = Barrier()

    def decide(image: ClusterImage) -> list[AclRemoved]:
        nonlocal matched
        matched = [matching_acls(image, each.matches) if isinstance(each, AclFilter) else [] for each in wanted]
        return remove_acls(image, [binding for bindings in matched for binding in bindings])

    def decided(failure: BrokerError | None) -> None:
        results = []
        for each, bindings in zip(wanted, matched, strict=True):
            refusal = each if isinstance(each, BrokerError) else failure
            results.append(_refused(refusal) if refusal is not None else _removed(bindings))
        answer.complete(DeleteAclsResponse(filter_results=results))

    context.node.propose(decide, decided)
    return answer


def _parsed(wanted: DeleteAclsFilter) -> AclFilter | BrokerError:
    try:
        return parse_filter(
            wanted.resource_type_filter,
            wanted.resource_name_filter,
            wanted.pattern_type_filter,
            wanted.principal_filter,
            wanted.host_filter,
            wanted.operation,
            wanted.permission_type,
        )
    except BrokerError as error:
        return error.to_keep()


def _refused(error: BrokerError) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(error_code=error.code, error_message=error.message)


def _removed(bindings: list[AclBinding]) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(
        matching_acls=[
            DeleteAclsMatchingAcl(
                resource_type=binding.pattern.resource_type,
                resource_name=binding.pattern.name,
                pattern_type=binding.pattern.pattern_type,
                principal=binding.principal,
                host=binding.host,
                operation=binding.operation,
                permission_type=binding.permission,
            )
            for binding in bindings
        ]
    )
