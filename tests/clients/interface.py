"""The face that the matrix needs of a client. One file beside this one puts it on each client.

An adapter calls the client as its documentation says and translates nothing but types. It must never work around a
broker: what a client cannot do is declared in `has_none`, with the reason, and what goes wrong is raised.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from tests.clients.group_interface import (
    GroupDescription,
    GroupMember,
    Membership,
    TransactionalProducer,
    TransactionDescription,
)
from tests.clients.records import Record, StoredRecord

CONSUME_TIMEOUT_S: Final = 20.0
REQUEST_TIMEOUT_S: Final = 20.0

EARLIEST: Final = -2
LATEST: Final = -1
MAX_TIMESTAMP: Final = -3

READ_COMMITTED: Final = "read_committed"
READ_UNCOMMITTED: Final = "read_uncommitted"

TOPIC_ALREADY_EXISTS: Final = 36


class ClientMissingError(RuntimeError):
    """The client is not installed; the message says what to install."""


class RefusedError(RuntimeError):
    """The broker refused what the client asked for, with a Kafka error code that the client shows to its user."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"error {code}: {message}")
        self.code = code


class KafkaClient(ABC):
    """A client that nobody here wrote, driven through its own interface."""

    name: ClassVar[str]
    has_none: ClassVar[Mapping[str, str]] = {}
    """Features that the client does not offer, each with the reason."""

    @abstractmethod
    def __init__(self, bootstrap_servers: str) -> None: ...

    @property
    @abstractmethod
    def version(self) -> str: ...

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def produce(
        self,
        topic: str,
        partition: int,
        records: Sequence[Record],
        *,
        compression: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> None:
        """Sends the records in order and waits until all are acknowledged (with acks=0: written to the socket)."""

    @abstractmethod
    def consume(
        self,
        topic: str,
        partition: int,
        count: int,
        *,
        offset: int = 0,
        isolation: str = READ_COMMITTED,
        timeout_s: float = CONSUME_TIMEOUT_S,
    ) -> list[StoredRecord]:
        """Reads `count` records from `offset` on without a consumer group; fewer if the time runs out."""

    @abstractmethod
    def create_topic(self, topic: str, partitions: int, config: Mapping[str, str]) -> None: ...

    @abstractmethod
    def list_topics(self) -> set[str]: ...

    @abstractmethod
    def partition_count(self, topic: str) -> int: ...

    @abstractmethod
    def add_partitions(self, topic: str, total: int) -> None: ...

    @abstractmethod
    def describe_config(self, topic: str) -> dict[str, str | None]: ...

    @abstractmethod
    def alter_config(self, topic: str, name: str, value: str) -> None:
        """AlterConfigs: replaces all that was set for the topic."""

    @abstractmethod
    def alter_config_incrementally(self, topic: str, name: str, value: str) -> None:
        """IncrementalAlterConfigs: sets one name and leaves the others."""

    @abstractmethod
    def delete_records(self, topic: str, partition: int, before_offset: int) -> None: ...

    @abstractmethod
    def delete_topic(self, topic: str) -> None: ...

    @abstractmethod
    def broker_ports(self) -> list[int]:
        """The ports of the brokers that the client sees in the cluster."""

    @abstractmethod
    def log_bytes(self, topic: str, partition: int) -> int:
        """The size of a partition on the broker's disk, by DescribeLogDirs."""

    @abstractmethod
    def list_offset(self, topic: str, partition: int, at: int) -> int | None:
        """The offset for a timestamp, EARLIEST, LATEST or MAX_TIMESTAMP; None where no record is that late."""

    # Groups and transactions. A client that has none of a feature leaves the method as it is.

    def join(self, membership: Membership) -> GroupMember:
        """Starts a consumer that joins the group; it need not have joined when this returns."""
        raise NotImplementedError

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """The group's offsets by partition; a partition without one is left out."""
        raise NotImplementedError

    def alter_committed(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Sets the offsets of a group that has no members."""
        raise NotImplementedError

    def list_groups(self) -> set[str]:
        raise NotImplementedError

    def describe_group(self, group: str) -> GroupDescription:
        raise NotImplementedError

    def delete_group(self, group: str) -> None:
        raise NotImplementedError

    def transactional_producer(self, transactional_id: str) -> TransactionalProducer:
        raise NotImplementedError

    def list_transactions(self) -> dict[str, str]:
        """The state of each transactional id that the broker knows, in Kafka's words."""
        raise NotImplementedError

    def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        raise NotImplementedError
