"""UnregisterBroker: a broker has left the cluster for good, and nothing waits for it any more. Version: 0.

Its replicas stay assigned to it until they are reassigned. Unlike Kafka's, a broker that is running is refused with
INVALID_REQUEST: it would go on without being known.
"""

from __future__ import annotations

from penstock.broker.deferred import Barrier, Deferred
from penstock.broker.request_context import RequestContext
from penstock.core.acls import AclOperation
from penstock.core.ids import BrokerId
from penstock.metadata.changes import Change
from penstock.metadata.image import ClusterImage
from penstock.metadata.registration import decide_unregistration
from penstock.protocol.definitions.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from penstock.protocol.error_codes import BrokerError, ErrorCode


def handle(request: UnregisterBrokerRequest, context: RequestContext) -> UnregisterBrokerResponse | Deferred:
    if not context.access.may_with_cluster(AclOperation.ALTER):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return UnregisterBrokerResponse(error_code=code, error_message=code.text)
    node, broker_id = context.node, BrokerId(request.broker_id)
    answer = Barrier()

    def decide(image: ClusterImage) -> list[Change]:
        return decide_unregistration(image, broker_id, node.inherited_topic_config)

    def decided(failure: BrokerError | None) -> None:
        if failure is not None:
            answer.complete(UnregisterBrokerResponse(error_code=failure.code, error_message=failure.message))
        elif broker_id in node.image.known_brokers:
            # More partitions relied on it than one proposal may change.
            node.propose(decide, decided)
        else:
            answer.complete(UnregisterBrokerResponse())

    node.propose(decide, decided)
    return answer
