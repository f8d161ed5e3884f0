"""The other brokers of the cluster: a channel to each, by the address that it registered.

Built when the first other broker is needed, so that a broker that is alone pays nothing for it. Must not know what is
asked over a channel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.broker.peers.channel import PeerChannel
from penstock.broker.peers.credentials import peer_credentials
from penstock.core.software import software_version

if TYPE_CHECKING:
    from penstock.broker.node import Node
    from penstock.core.ids import BrokerId
    from penstock.metadata.changes import Endpoint

REQUESTS: Final = "requests"
"""The lane of requests that are answered at once. Those that wait at the other broker take another one."""


class Peers:
    """Belongs to the event loop. Raises ConfigError if the settings do not allow to reach another broker."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._credentials = peer_credentials(node.config)
        self._channels: dict[tuple[BrokerId, str], PeerChannel] = {}

    def channel(self, broker_id: BrokerId, lane: str = REQUESTS) -> PeerChannel:
        """The channel to a broker, which need not be reachable. Requests of one lane share a connection."""
        assert broker_id != self._node.broker_id, "a broker does not talk to itself over the network"
        channel = self._channels.get((broker_id, lane))
        if channel is None:
            channel = self._channels[broker_id, lane] = PeerChannel(
                broker_id,
                lambda: self._endpoint(broker_id),
                self._credentials,
                client_id=f"broker-{self._node.broker_id}-{lane}",
                software_version=software_version(),
            )
        return channel

    def disconnect(self, broker_id: BrokerId) -> None:
        """The broker left the cluster: what was asked of it is not waited for."""
        for channel in self._channels_to(broker_id):
            channel.disconnect("its session in the cluster has ended")

    def retry_now(self, broker_id: BrokerId) -> None:
        """The broker has registered: the next attempt to connect is made at once."""
        for channel in self._channels_to(broker_id):
            channel.retry_now()

    def _channels_to(self, broker_id: BrokerId) -> list[PeerChannel]:
        return [channel for (known_id, _), channel in self._channels.items() if known_id == broker_id]

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close()

    def _endpoint(self, broker_id: BrokerId) -> Endpoint | None:
        broker = self._node.image.brokers.get(broker_id)
        return None if broker is None else broker.endpoints.get(self._node.config.inter_broker_listener_name)
