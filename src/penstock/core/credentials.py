"""What a cluster keeps of a SCRAM user: Kafka's UserScramCredentialRecord, without the password.

Data only. `security/` makes and checks it, the metadata stores it.

Invariant: no `repr` contains a key. The server key would let its reader impersonate the broker.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

SCRAM_ITERATIONS_MIN: Final = 4096
SCRAM_ITERATIONS_MAX: Final = 16384
"""What Kafka's controller accepts for a new credential."""


class ScramMechanism(IntEnum):
    """The protocol's numbers."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    def __str__(self) -> str:
        """The name in SASL: `SCRAM-SHA-256`."""
        return self.name.replace("_", "-")

    @property
    def digest(self) -> str:
        """The hash function, as `hashlib` names it."""
        return self.name.removeprefix("SCRAM_").replace("_", "").lower()

    @property
    def key_bytes(self) -> int:
        return 32 if self is ScramMechanism.SCRAM_SHA_256 else 64


@dataclass(frozen=True, slots=True)
class ScramCredential:
    mechanism: ScramMechanism
    iterations: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
