"""What the matrix needs of a client's consumer groups and transactions; `interface.py` gives them out.

A member polls by itself, as a running application does, and is looked at through `state`. What it tells comes from the
client: its rebalance callbacks and its records. The matrix draws its conclusions from that, and asks no broker.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.clients.records import Record

SESSION_TIMEOUT_MS: Final = 10_000
HEARTBEAT_INTERVAL_MS: Final = 200
AUTO_COMMIT_INTERVAL_MS: Final = 200

ASSIGNED: Final = "assigned"
REVOKED: Final = "revoked"
LOST: Final = "lost"

INVALID_PRODUCER_EPOCH: Final = 47
PRODUCER_FENCED: Final = 90
LIBRDKAFKA_FENCED: Final = -144
FENCED: Final = frozenset({INVALID_PRODUCER_EPOCH, PRODUCER_FENCED, LIBRDKAFKA_FENCED})
"""What a fenced producer shows to its user. librdkafka has a code of its own for what the broker says."""

NO_NEWER_PROTOCOL: Final[Mapping[str, str]] = dict.fromkeys(
    (
        "group.protocol=consumer, uniform assignor",
        "group.protocol=consumer, range assignor",
        "group.protocol=consumer, go on from the commit",
        "group.protocol=consumer, rolling upgrade and back",
    ),
    "it speaks the classic group protocol only",
)
"""For a client without KIP-848, what it has none of."""


@dataclass(frozen=True, slots=True)
class Membership:
    """How a consumer joins a group. All members of the matrix read one topic from its beginning on."""

    group: str
    topic: str
    assignor: str | None = None
    """Of the classic protocol: range, roundrobin or cooperative-sticky; None is the client's own choice."""
    remote_assignor: str | None = None
    """Of the newer protocol (KIP-848), which this asks for: uniform or range."""
    instance_id: str | None = None
    auto_commit: bool = False


@dataclass(frozen=True, slots=True)
class Received:
    partition: int
    offset: int
    value: bytes | None


@dataclass(slots=True)
class MemberState:
    """What a member has seen so far."""

    assigned: set[int] = field(default_factory=set)
    received: list[Received] = field(default_factory=list)
    rebalances: list[tuple[str, frozenset[int]]] = field(default_factory=list)
    """The client's rebalance callbacks in their order, each with its partitions."""

    def rebalance(self, kind: str, partitions: frozenset[int]) -> None:
        self.rebalances.append((kind, partitions))
        if kind == ASSIGNED:
            self.assigned |= partitions
        else:
            self.assigned -= partitions

    def next_offsets(self) -> dict[int, int]:
        """The offsets to commit, for the partitions that it owns."""
        return {each.partition: each.offset + 1 for each in self.received if each.partition in self.assigned}


class GroupMember(ABC):
    @abstractmethod
    def state(self) -> MemberState:
        """A copy of what it has seen; raises what went wrong while it polled."""

    @abstractmethod
    def commit(self) -> None:
        """Commits what was received, and returns when the broker has it."""

    @abstractmethod
    def close(self) -> None:
        """Ends it as the client's documentation says: a static member stays in the group. May be called again."""


class TransactionalProducer(ABC):
    @abstractmethod
    def begin(self) -> None:
        """Begins a transaction; the first one also registers the transactional id, which fences predecessors."""

    @abstractmethod
    def send(self, topic: str, partition: int, records: Sequence[Record]) -> None:
        """Sends the records in the open transaction and waits until they are acknowledged."""

    @abstractmethod
    def send_offsets(self, member: GroupMember) -> None:
        """Makes what the member received part of the transaction."""

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def abort(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class GroupDescription:
    state: str
    """Kafka's name for it in lower case without separators: stable, empty, preparingrebalance, ..."""
    assignments: Sequence[set[int]]
    """For each member, its partitions."""


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    state: str
    partitions: set[tuple[str, int]]


def state_name(shown: object) -> str:
    """A group's state as each client spells it (STABLE, Stable, PREPARING_REBALANCING), in one spelling."""
    return str(shown).rpartition(".")[2].replace("_", "").lower()


def partitions_of(topic: str, committed: Mapping[tuple[str, int], int]) -> dict[int, int]:
    return {partition: offset for (name, partition), offset in committed.items() if name == topic and offset >= 0}
