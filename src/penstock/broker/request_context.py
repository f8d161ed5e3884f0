"""What a handler knows of the request beside its content."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.broker.node import Node


class RequestContext:
    """Made anew for each request, so it is kept small."""

    __slots__ = ("api_version", "client_id", "close_connection", "node", "peer")

    def __init__(
        self, node: Node, api_version: int, client_id: str | None, peer: str, close_connection: Callable[[str], None]
    ) -> None:
        self.node = node
        self.api_version = api_version
        self.client_id = client_id
        self.peer = peer
        self.close_connection = close_connection

    @property
    def client_host(self) -> str:
        """As members of groups are described: Kafka puts a slash before the address."""
        return "/" + self.peer.rpartition(":")[0]
