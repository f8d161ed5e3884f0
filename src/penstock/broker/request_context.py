"""What a handler knows of a request beside its content."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.protocol.error_codes import BrokerError, ErrorCode

if TYPE_CHECKING:
    from penstock.broker.access import Access
    from penstock.broker.client_quotas import MutationQuota
    from penstock.broker.node import Node
    from penstock.metadata.changes import BrokerImage, Endpoint
    from penstock.security.authentication import Authentication


class ClientConnection(Protocol):
    """The connection that a request came in by, as far as a handler may know it."""

    @property
    def peer(self) -> str:
        """`host:port` of the client."""
        ...

    @property
    def listener_name(self) -> str:
        """The name of the listener that the client connected to."""
        ...

    @property
    def access(self) -> Access:
        """What the client may do."""
        ...

    @property
    def authentication(self) -> Authentication | None:
        """The SASL state of the connection; None on a listener without SASL."""
        ...

    def authenticated(self) -> None:
        """`authentication` has a user: from now on the client is that user."""
        ...

    def hang_up(self, reason: str) -> None:
        """Closes the connection once the answers to earlier requests have left."""
        ...

    def hang_up_after_answer(self, reason: str) -> None:
        """Closes the connection once the answer to this request has left, too. No later request is looked at."""
        ...


class RequestContext:
    """One is made for each request, so it is kept small."""

    __slots__ = ("api_version", "client_id", "connection", "node")

    def __init__(self, node: Node, api_version: int, client_id: str | None, connection: ClientConnection) -> None:
        self.node = node
        self.api_version = api_version
        self.client_id = client_id
        self.connection = connection

    @property
    def access(self) -> Access:
        return self.connection.access

    def check_authorizer(self) -> None:
        """Raises SECURITY_DISABLED where no authorizer is configured: ACLs would have no effect."""
        if self.node.authorizer is None:
            raise BrokerError(
                ErrorCode.SECURITY_DISABLED, "No authorizer is configured on the broker; set authorizer.class.name."
            )

    @property
    def client_host(self) -> str:
        """The client's address as group descriptions show it: Kafka puts a slash before it."""
        return "/" + self.connection.peer.rpartition(":")[0]

    def mutation_quota(self) -> MutationQuota | None:
        """This client's quota for changes of the cluster, if it has one."""
        quotas = self.node.quotas
        return None if quotas is None else quotas.mutations(self.access.client.user, self.client_id or "")

    def endpoint_of(self, broker: BrokerImage) -> Endpoint | None:
        """Where this client reaches the broker: by the listener of the same name, as in Kafka. None without one."""
        return broker.endpoints.get(self.connection.listener_name)
