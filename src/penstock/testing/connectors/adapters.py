"""What the author of a connector tells the conformance suite: configuration, and the way to the outside system.

An adapter is made for each test, with an empty directory of its own; its outside system is empty then.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from penstock.connect.connector import SinkConnector, SourceConnector
from penstock.testing.connectors.shapes import STRUCT, RecordShape


class ConnectorAdapter(ABC):
    def __init__(self, directory: Path) -> None:
        """A server that tests share is started by a fixture of the author's; `directory` is empty."""
        self.directory = directory

    @abstractmethod
    def config(self) -> Mapping[str, str]:
        """The connector's own properties, with those that it requires. The suite adds `guarantee`."""

    def close(self) -> None:  # noqa: B027 (most have nothing to do)
        """After the test."""


class SinkAdapter(ConnectorAdapter):
    connector: ClassVar[type[SinkConnector]]
    accepts: ClassVar[Sequence[RecordShape]] = (STRUCT,)
    """Records that the sink writes. The tests mix them."""
    refuses: ClassVar[Sequence[RecordShape]] = ()
    """Records that it reports as Failure."""
    keeps_order: ClassVar[bool] = True
    """`written` has the records of a partition and a schema in the order of the topic."""
    replaces_by_key: ClassVar[bool] = False
    """A record replaces an earlier one with its key. `accepts` then has shapes with keys."""
    deletes_by_key: ClassVar[bool] = False
    """A tombstone deletes the record with its key."""

    @abstractmethod
    def written(self) -> Sequence[int]:
        """The numbers of the records that a reader of the outside system finds, each as often as it is there.

        Tombstones have no number: what the sink makes of them is left out.
        """


class SourceAdapter(ConnectorAdapter):
    """`config` sets the interval at which the source asks its system, if there is one, to a few milliseconds."""

    connector: ClassVar[type[SourceConnector]]

    def target(self) -> Mapping[str, str]:
        """Settings of connections to the cluster that gets the records, for a connector that uses them itself."""
        return {}

    @abstractmethod
    def put(self, numbers: Sequence[int]) -> None:
        """Adds a record for each number to the outside system, in this order, for several source partitions if the
        connector has them."""

    @abstractmethod
    def number_of(self, value: Any) -> int:
        """The number of a record, by its value: a dict for a struct or a map."""
