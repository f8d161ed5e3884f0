"""What a connector is: the interface that its author implements, and nothing of the worker or of Spark.

A connector object is made in the worker from the connector's configuration, and pickled into the tasks of Spark jobs:
`__init__` parses, and opens nothing. What has to stay open on the driver's side (a connection, a lock) is opened by
`start` and closed by `stop`; what a task needs is opened by `open_writer` or `read` in that task.

A worker runs a connector as a loop of small Spark jobs (docs/adr/0017). Where it stands is never in Spark: a sink's
position is the consumer group `connect-NAME`, or the sink's own ledger; a source's is the offsets topic.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.connect.config.definition import ConfigDef, ConfigException
from penstock.core.guarantee import Guarantee
from penstock.core.ids import TopicPartition

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from penstock.connect.data.records import Failure, RecordGroup

SourcePartition = Mapping[str, Any]
"""What a source counts in, as JSON: a file, a table. None of its values may be a list or an object."""
SourceOffset = Mapping[str, Any]
"""How far it has got there, as JSON."""


def partition_key(partition: SourcePartition | None) -> str:
    """Equal for equal partitions, whatever the order of their fields. The keys of what `SourceConnector.plan` gets."""
    return json.dumps(partition, sort_keys=True, separators=(",", ":"))


def offset_of(offsets: Mapping[str, SourceOffset], partition: SourcePartition) -> SourceOffset | None:
    return offsets.get(partition_key(partition))


class RetriableError(Exception):
    """The outside system is away or busy: the worker tries the same work again, with growing pauses, until it succeeds.

    Converters and transforms may raise it as well: for those `errors.retry.timeout` says how long they are tried again.
    """


class BatchRefused(Exception):
    """Of `SinkConnector.commit`: the outside system refuses some record of the batch, and has taken none.

    The batch is run once more before anything is committed. Writers that the same connector opens then, and its next
    `commit`, find out which records these are.
    """


class ConnectError(Exception):
    """A person has to act: the connector fails, and its status shows the text. One line: what, where, remedy."""


class Connector(ABC):
    definition: ClassVar[ConfigDef]
    version: ClassVar[str]
    prefixes: ClassVar[tuple[str, ...]] = ()
    """Properties that begin like this are its own, beyond `definition`: settings of its clients."""

    def __init__(self, name: str, config: Mapping[str, str]) -> None:
        """`config` is complete, and its references to secrets are resolved. Raises ConfigException."""
        self.name = name
        self.config = config

    @classmethod
    def check(cls, config: Mapping[str, str]) -> Sequence[ConfigException]:
        """What the definition cannot say: properties that exclude each other, an outside system that is away."""
        return ()

    @classmethod
    def completed(cls, config: Mapping[str, str]) -> Mapping[str, str]:
        """With the common properties (converters, overrides of clients) that follow from its own. Those given win."""
        return config

    def task_count(self, tasks_max: int) -> int:
        """How many tasks it can use, from 1 to `tasks_max`. Called on the driver, without `start`."""
        return tasks_max

    def start(self) -> None:  # noqa: B027 (most have nothing to do)
        """On the driver, before the first job. Also after a failure, with a new object."""

    def stop(self) -> None:  # noqa: B027
        """On the driver; also after a `start` that failed."""


# Sinks


def _refuses_nothing(_task: int, failures: Sequence[Failure]) -> None:
    raise AssertionError(f"this batch takes no refusals: {failures}")


@dataclass(frozen=True, slots=True)
class Batch:
    """What one job moves: for each partition, the records from one offset up to, and without, another."""

    ranges: Mapping[TopicPartition, tuple[int, int]]
    refuse: Callable[[int, Sequence[Failure]], None] = field(default=_refuses_nothing, compare=False)
    """For a `commit` after BatchRefused: records of a task (its number, and their `rows`) that the outside system
    refuses, before the others are committed. They are dead letters when it returns; raises if `errors.tolerance` is
    none."""

    @property
    def end_offsets(self) -> dict[TopicPartition, int]:
        return {partition: end for partition, (_start, end) in self.ranges.items()}


class SinkWriter(ABC):
    """Writes the records of one task of one job."""

    refuse: Callable[[Sequence[Failure]], None]
    """For `finish`: records that the outside system refuses then, before the others are committed. Set by the worker.
    They are dead letters when it returns; raises if `errors.tolerance` is none."""

    @abstractmethod
    def put(self, group: RecordGroup) -> Sequence[Failure]:
        """Records that the outside system refuses are returned; they become dead letters, or stop the connector.

        Raises RetriableError, ConnectError. Records of different groups may be out of order: `group.rows` is the order
        in which the task has read them, where it matters to the sink.
        """

    @abstractmethod
    def finish(self) -> Any:
        """After the last group: what the commit has to know, picklable and small. All records are written or staged."""

    def abandon(self) -> None:  # noqa: B027
        """Instead of `finish`, after an exception."""


class SinkConnector(Connector):
    guarantees: ClassVar[Mapping[Guarantee, str]] = {"at_most_once": "", "at_least_once": ""}
    """Those that it keeps; the text names what is needed for it, for documents."""

    def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int] | None:
        """For exactly once: offsets from the sink's own ledger. None: the consumer group has them.

        Called after `start`, which has fenced every earlier run of this connector. Without `start`, and with no
        partitions, it returns all that the ledger has, for a person who asks: like `set_positions` it then opens what
        it needs, and `stop` closes it.
        """
        return None

    def set_positions(self, positions: Mapping[TopicPartition, int | None]) -> None:
        """A person changes the ledger while the connector is stopped; None removes a position. Like `positions`, only
        for sinks with a ledger."""
        raise ConnectError(f"connector '{self.name}' has no ledger")

    @abstractmethod
    def open_writer(self, task: int, guarantee: Guarantee) -> SinkWriter:
        """In a task of Spark's."""

    def commit(self, results: Sequence[Any], batch: Batch) -> None:
        """On the driver, with what `finish` of all tasks returned.

        For exactly once: makes the records and `batch.end_offsets` visible in one transaction of the outside system.
        Raises BatchRefused, RetriableError, ConnectError.
        """


# Sources


@dataclass(frozen=True, slots=True)
class Slice:
    """Work for one task: read on from `offset` (None: from the beginning). `plan` is the connector's own, picklable.

    One slice of a source partition is under way at a time, so tasks never share one.
    """

    partition: SourcePartition
    offset: SourceOffset | None
    plan: Any = None


@dataclass(frozen=True, slots=True)
class SourceRows:
    """Records, and where their source partition stands behind them. `partition` defaults to that of the slice."""

    group: RecordGroup
    offset: SourceOffset
    partition: SourcePartition | None = None


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """Rows of a slice (`RecordGroup.rows`) that are at consecutive offsets of a partition, from `base_offset` on."""

    partition: TopicPartition
    base_offset: int
    rows: NDArray[np.int64]


class SourceConnector(Connector):
    target: Mapping[str, str] = {}
    """Settings of connections to the cluster that gets the records. The worker sets it before `start`."""
    wants_written_rows: ClassVar[bool] = False
    """Whether `written` is called. Its rows are numbered through a slice, and name their partitions."""

    exactly_once: ClassVar[str | None] = None
    """None: its positions can be replayed. Otherwise why they cannot."""

    @abstractmethod
    def plan(self, offsets: Mapping[str, SourceOffset]) -> Sequence[Slice]:
        """What there is to read now, and nothing without end: a slice is one transaction. Empty: nothing yet.

        Called on the driver, again and again (every `poll_interval_s` while it returns nothing). `offset_of` finds a
        partition's offset among `offsets`, the committed ones. Raises RetriableError, ConnectError.
        """

    poll_interval_s: float = 1.0

    @abstractmethod
    def read(self, slice_: Slice) -> Iterator[SourceRows]:
        """In a task of Spark's. The last offset that it yields is committed with all records of the slice."""

    def written(self, slice_: Slice, rows: Sequence[WrittenRows]) -> None:
        """In the task of `read`, after the slice is committed. A process that is killed before misses it."""

    def committed(self, offsets: Mapping[str, SourceOffset]) -> None:
        """On the driver: these are durable now. For sources that acknowledge or delete what was read."""

    @classmethod
    def check_offsets(
        cls, config: Mapping[str, str], offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]
    ) -> None:
        """A person wants to change them (KIP-875). Raises ConnectError for those that make no sense."""
