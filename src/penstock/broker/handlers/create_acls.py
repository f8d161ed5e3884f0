"""CreateAcls: new ACLs, each accepted or refused by itself, all accepted ones made durable together. Versions: 1 to 3.

An ACL that exists already is a success, as in Kafka. The ACLs hold for the request that follows the answer.
"""

from __future__ import annotations

from penstock.broker.deferred import Barrier, Deferred
from penstock.broker.request_context import RequestContext
from penstock.core.acls import AclBinding, AclOperation
from penstock.metadata.acl_changes import add_acls
from penstock.protocol.definitions.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from penstock.protocol.error_codes import BrokerError
from penstock.security.acl_filters import parse_binding


def handle(request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse | Deferred:
    try:
        context.check_authorizer()
        context.access.check_cluster(AclOperation.ALTER)
    except BrokerError as error:
        return CreateAclsResponse(results=[_refused(error) for _ in request.creations])
    response = CreateAclsResponse()
    accepted: list[tuple[AclBinding, AclCreationResult]] = []
    for creation in request.creations:
        result = AclCreationResult()
        try:
            accepted.append((_binding(creation), result))
        except BrokerError as error:
            result = _refused(error)
        response.results.append(result)
    if not accepted:
        return response
    answer = Barrier()

    def decided(failure: BrokerError | None) -> None:
        if failure is not None:
            for _, result in accepted:
                result.error_code, result.error_message = failure.code, failure.message
        answer.complete(response)

    bindings = [binding for binding, _ in accepted]
    context.node.propose(lambda image: add_acls(image, bindings, context.node.entropy.uuid), decided)
    return answer


def _binding(creation: AclCreation) -> AclBinding:
    return parse_binding(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


def _refused(error: BrokerError) -> AclCreationResult:
    return AclCreationResult(error_code=error.code, error_message=error.message)
