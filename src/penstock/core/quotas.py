"""Whom a quota is for, and what can be limited: Kafka's names (KIP-13, KIP-55, KIP-599, KIP-612)."""

from __future__ import annotations

from typing import Final, NamedTuple

DEFAULT: Final = ""
"""In an entity, in place of a name: everything of this kind that has no quota of its own."""

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"


class QuotaEntity(NamedTuple):
    """A user, a client id, a client id of a user, or an IP address. None: not part of it. DEFAULT: all without one."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    def __str__(self) -> str:
        """As `penstock quota` shows it: `user=alice, client-id=<default>`."""
        parts = (("user", self.user), ("client-id", self.client_id), ("ip", self.ip))
        return ", ".join(f"{kind}={name or '<default>'}" for kind, name in parts if name is not None)
