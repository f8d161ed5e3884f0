"""How many connections a broker takes: `max.connections`, `max.connections.per.ip` and its overrides.

Counts connections and decides about new ones. Kafka leaves a connection above `max.connections` waiting until another
one closes; here it is closed, as one above the limit of its address is in both.
"""

from __future__ import annotations

from collections import Counter

from penstock.metadata.broker_config import BrokerConfig, connection_overrides


class ConnectionLimits:
    def __init__(self) -> None:
        self._by_host: Counter[str] = Counter()
        self._config: BrokerConfig | None = None
        self._overrides: dict[str, int] = {}

    def opened(self, host: str, config: BrokerConfig) -> str | None:
        """Counts a connection. The reason why it must be closed, if it must."""
        self._by_host[host] += 1
        if config is not self._config:
            self._config, self._overrides = config, connection_overrides(config.max_connections_per_ip_overrides)
        if self._by_host.total() > config.max_connections:
            return f"there are {config.max_connections} connections already (max.connections)"
        limit = self._overrides.get(host, config.max_connections_per_ip)
        if self._by_host[host] > limit:
            return f"there are {limit} connections from {host} already (max.connections.per.ip)"
        return None

    def closed(self, host: str) -> None:
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]
