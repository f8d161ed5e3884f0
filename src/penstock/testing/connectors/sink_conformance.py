"""The tests of a sink connector: records, failures, guarantees under crashes, positions in its own ledger.

A class of an author's sets `adapter`. Tests that its sink does not promise anything for are taken out of the class,
so that none passes without having tested something.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final

import pyarrow as pa

from penstock.connect.connector import Batch, ConnectError, RetriableError, SinkConnector
from penstock.core.guarantee import Guarantee
from penstock.core.ids import TopicPartition
from penstock.testing.connectors.adapters import SinkAdapter
from penstock.testing.connectors.declaration import NAME, DeclarationConformance
from penstock.testing.connectors.shapes import ALL_SHAPES, Record, RecordShape, groups_of
from penstock.testing.connectors.sink_worker import Crashed, CrashPoint, SinkWorker, TopicAndGroup

_PARTITIONS: Final = [TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("orders", 2)]
_FIRST: Final = _PARTITIONS[0]
_BATCH_RECORDS: Final = 7
_RECORDS: Final = 20

_ONLY_EXACTLY_ONCE: Final = (
    "test_an_earlier_run_commits_nothing_more",
    "test_a_task_of_an_earlier_run_adds_nothing",
    "test_a_person_sees_and_changes_positions",
    "test_a_batch_without_records_moves_positions",
)
_ONLY_BY_KEY: Final = ("test_the_newest_record_of_a_key_stays",)
_ONLY_DELETES: Final = ("test_a_tombstone_deletes_the_record_with_its_key",)
_ONLY_REFUSALS: Final = ("test_records_that_it_refuses_are_reported_and_the_others_are_written",)


class SinkConformance(DeclarationConformance):
    adapter: ClassVar[type[SinkAdapter]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if not hasattr(cls, "adapter"):
            return
        applies = {
            _ONLY_EXACTLY_ONCE: "exactly_once" in cls.adapter.connector.guarantees,
            _ONLY_BY_KEY: cls.adapter.replaces_by_key,
            _ONLY_DELETES: cls.adapter.deletes_by_key,
            _ONLY_REFUSALS: bool(cls.adapter.refuses),
        }
        for names, does in applies.items():
            for name in names if not does else ():
                setattr(cls, name, None)

    def pytest_generate_tests(self, metafunc: Any) -> None:
        guarantees = list(self.adapter.connector.guarantees)
        values: dict[str, Sequence[Any]] = {
            "guarantee": guarantees,
            "crash": list(CrashPoint),
            "shape": ALL_SHAPES,
            "refused": self.adapter.refuses,
        }
        for name, choices in values.items():
            if name in metafunc.fixturenames:
                ids = [getattr(each, "name", str(each)).lower() for each in choices]
                metafunc.parametrize(name, choices, ids=ids)

    # Records

    def test_all_records_are_written_in_their_order(self, tmp_path: Path, guarantee: Guarantee) -> None:
        topic = _topic(self.adapter.accepts)
        with self._run(tmp_path, guarantee, topic) as (adapter, worker):
            worker.drain(_BATCH_RECORDS)
        assert worker.failures == []
        written = list(adapter.written())
        _check_written(adapter, topic.numbers)
        if adapter.keeps_order:
            for records in topic.records.values():
                for shape in adapter.accepts:
                    numbers = [each.number for each in records if each.shape is shape]
                    assert [each for each in written if each in numbers] == numbers

    def test_records_of_any_schema_are_written_or_reported(self, tmp_path: Path, shape: RecordShape) -> None:
        """A record that a sink cannot write is a Failure: an exception would stop the connector for good."""
        topic = _topic([shape])
        with self._run(tmp_path, self._weakest, topic) as (adapter, worker):
            worker.drain(_BATCH_RECORDS)
            _check_failures(worker)
        failed = sum(len(each.offsets) for each in worker.failures)
        if shape in adapter.accepts:
            assert failed == 0, worker.failures
            _check_written(adapter, topic.numbers)
        if shape in adapter.refuses:
            assert failed == len(topic.numbers)

    def test_records_that_it_refuses_are_reported_and_the_others_are_written(
        self, tmp_path: Path, refused: RecordShape
    ) -> None:
        topic = _topic([*self.adapter.accepts, refused])
        for guarantee in self.adapter.connector.guarantees:
            directory = tmp_path / guarantee
            directory.mkdir()
            with self._run(directory, guarantee, topic) as (adapter, worker):
                worker.drain(_BATCH_RECORDS)
                _check_failures(worker)
            topic.offsets.clear()
            bad = [each.number for each in _all(topic) if each.shape is refused]
            assert sum(len(each.offsets) for each in worker.failures) == len(bad)
            _check_written(adapter, sorted(set(topic.numbers) - set(bad)))

    def test_tombstones_are_written_or_reported(self, tmp_path: Path, guarantee: Guarantee) -> None:
        """Their neighbours are written all the same."""
        records = _topic(self.adapter.accepts).records
        shape = self.adapter.accepts[0]
        topic = TopicAndGroup(
            {
                partition: [*kept, *(Record(each.number + 1000, shape, is_tombstone=True) for each in kept)]
                for partition, kept in records.items()
            }
        )
        with self._run(tmp_path, guarantee, topic) as (adapter, worker):
            worker.drain(2 * _RECORDS)
            _check_failures(worker)
        reported = [(each.partition, offset) for each in worker.failures for offset in each.offsets]
        assert all(topic.records[partition][offset].is_tombstone for partition, offset in reported)
        _check_written(adapter, topic.numbers)

    def test_a_task_without_records_writes_nothing(self, tmp_path: Path, guarantee: Guarantee) -> None:
        """A range of offsets may have no records: those of transactions, or of a compacted topic."""
        shape = self.adapter.accepts[0]
        topic = TopicAndGroup({_FIRST: [Record(1, shape)]})
        with self._run(tmp_path, guarantee, topic) as (adapter, worker):
            (group,) = groups_of(_FIRST, 0, topic.records[_FIRST])
            untouched, empty = worker.open_writer(0), worker.open_writer(1)
            assert list(empty.put(group.take(pa.array([], pa.int64())))) == []
            worker.connector.commit([untouched.finish(), empty.finish()], Batch({_FIRST: (0, 1)}))
        assert list(adapter.written()) == []

    def test_the_newest_record_of_a_key_stays(self, tmp_path: Path, guarantee: Guarantee) -> None:
        """Also where the versions of a record are in different groups of one task."""
        accepts = self.adapter.accepts
        versions = [Record(number, accepts[number % len(accepts)], key_number=number % 5) for number in range(30)]
        topic = TopicAndGroup({_FIRST: versions})
        with self._run(tmp_path, guarantee, topic) as (adapter, worker):
            worker.drain(12)
        assert worker.failures == []
        assert sorted(adapter.written()) == [25, 26, 27, 28, 29]

    def test_a_tombstone_deletes_the_record_with_its_key(self, tmp_path: Path, guarantee: Guarantee) -> None:
        shape = self.adapter.accepts[0]
        records = [Record(number, shape) for number in range(6)]
        deletes = [Record(100 + number, shape, is_tombstone=True, key_number=number) for number in (1, 3, 4)]
        topic = TopicAndGroup({_FIRST: [*records, *deletes, Record(4, shape)]})
        with self._run(tmp_path, guarantee, topic) as (adapter, worker):
            worker.drain(8)
        assert worker.failures == []
        assert sorted(adapter.written()) == [0, 2, 4, 5]

    # Guarantees

    def test_a_crash_leaves_what_the_guarantee_promises(
        self, tmp_path: Path, guarantee: Guarantee, crash: CrashPoint
    ) -> None:
        topic = _topic(self.adapter.accepts)
        with self._opened(tmp_path) as adapter, ExitStack() as processes:
            first = self._worker(adapter, guarantee, topic, processes)
            first.start()
            first.move(first.next_batch(_BATCH_RECORDS))
            try:
                first.move(first.next_batch(_BATCH_RECORDS), crash)
            except Crashed:
                pass
            else:
                raise AssertionError(f"the worker did not get to the point: {crash.value}")
            second = self._worker(adapter, guarantee, topic, processes)
            second.start()
            second.drain(_BATCH_RECORDS)
            assert [*first.failures, *second.failures] == []
            found = Counter(adapter.written())
        lost = [each for each in topic.numbers if found[each] == 0]
        repeated = [each for each in topic.numbers if found[each] > 1]
        if guarantee != "at_most_once":
            assert lost == [], f"lost, where {crash.value}"
        if guarantee != "at_least_once":
            assert repeated == [], f"written twice, where {crash.value}"
        assert set(found) <= set(topic.numbers)

    def test_a_restart_after_a_stop_loses_and_repeats_nothing(self, tmp_path: Path, guarantee: Guarantee) -> None:
        topic = _topic(self.adapter.accepts)
        with self._opened(tmp_path) as adapter, ExitStack() as processes:
            for _ in range(_RECORDS // _BATCH_RECORDS + 1):
                worker = self._worker(adapter, guarantee, topic, processes)
                worker.start()
                worker.move(worker.next_batch(_BATCH_RECORDS))
                worker.connector.stop()
            _check_written(adapter, topic.numbers)

    def test_an_earlier_run_commits_nothing_more(self, tmp_path: Path) -> None:
        """It may come back after a pause, with a batch that all tasks have finished."""
        topic = _topic(self.adapter.accepts)
        with self._opened(tmp_path) as adapter, ExitStack() as processes:
            early = self._worker(adapter, "exactly_once", topic, processes)
            early.start()
            batch = early.next_batch(_BATCH_RECORDS)
            outcomes = [early.run_task(task, share) for task, share in enumerate(early.shares(batch))]
            late = self._worker(adapter, "exactly_once", topic, processes)
            late.start()
            _check_refused("commit", lambda: early.connector.commit(outcomes, batch))
            late.drain(_BATCH_RECORDS)
            _check_refused("commit", lambda: early.connector.commit(outcomes, batch))
            assert late.positions() == topic.end_offsets
            _check_written(adapter, topic.numbers)

    def test_a_task_of_an_earlier_run_adds_nothing(self, tmp_path: Path) -> None:
        """A task on a machine that was cut off goes on writing. It may fail, or write what never counts."""
        topic = _topic(self.adapter.accepts)
        with self._opened(tmp_path) as adapter, ExitStack() as processes:
            early = self._worker(adapter, "exactly_once", topic, processes)
            early.start()
            share = early.shares(early.next_batch(_BATCH_RECORDS))[0]
            writer = early.open_writer(0)
            early.put(writer, share)
            late = self._worker(adapter, "exactly_once", topic, processes)
            late.start()
            late.move(late.next_batch(_BATCH_RECORDS))
            try:
                writer.finish()
            except (ConnectError, RetriableError):
                writer.abandon()
            late.drain(_BATCH_RECORDS)
            _check_written(adapter, topic.numbers)

    # Positions of its own

    def test_a_person_sees_and_changes_positions(self, tmp_path: Path) -> None:
        """Without `start`: a worker asks a stopped connector."""
        topic = _topic(self.adapter.accepts)
        with self._run(tmp_path, "exactly_once", topic) as (adapter, worker):
            worker.drain(_BATCH_RECORDS)
            worker.connector.stop()
            with ExitStack() as processes:
                asked = self._worker(adapter, "exactly_once", topic, processes).connector
                assert asked.positions([]) == topic.end_offsets
                asked.set_positions({_PARTITIONS[0]: 3, _PARTITIONS[1]: None})
                assert asked.positions([]) == {_PARTITIONS[0]: 3, _PARTITIONS[2]: _RECORDS}
            with ExitStack() as processes:
                again = self._worker(adapter, "exactly_once", topic, processes)
                again.start()
                assert again.positions() == {_PARTITIONS[0]: 3, _PARTITIONS[1]: 0, _PARTITIONS[2]: _RECORDS}

    def test_a_batch_without_records_moves_positions(self, tmp_path: Path) -> None:
        topic = TopicAndGroup({_FIRST: [Record(1, self.adapter.accepts[0])]})
        with self._run(tmp_path, "exactly_once", topic) as (_adapter, worker):
            outcome = worker.open_writer(0).finish()
            worker.connector.commit([outcome], Batch({_FIRST: (0, 1)}))
            assert worker.positions() == {_FIRST: 1}

    # How tests run it

    @property
    def _weakest(self) -> Guarantee:
        return next(iter(self.adapter.connector.guarantees))

    def _worker(
        self, adapter: SinkAdapter, guarantee: Guarantee, topic: TopicAndGroup, processes: ExitStack
    ) -> SinkWorker:
        connector: SinkConnector = self.adapter.connector(NAME, {**adapter.config(), "guarantee": guarantee})
        worker = SinkWorker(connector, guarantee, topic)
        processes.callback(worker.end_processes)
        return worker

    @contextmanager
    def _run(
        self, directory: Path, guarantee: Guarantee, topic: TopicAndGroup
    ) -> Iterator[tuple[SinkAdapter, SinkWorker]]:
        with self._opened(directory) as adapter, ExitStack() as processes:
            worker = self._worker(adapter, guarantee, topic, processes)
            worker.start()
            yield adapter, worker


def _topic(shapes: Sequence[RecordShape]) -> TopicAndGroup:
    """Numbers are unique; the records of a partition go through the shapes in turn."""
    return TopicAndGroup(
        {
            partition: [Record(place * _RECORDS + number, shapes[number % len(shapes)]) for number in range(_RECORDS)]
            for place, partition in enumerate(_PARTITIONS)
        }
    )


def _all(topic: TopicAndGroup) -> list[Record]:
    return [each for records in topic.records.values() for each in records]


def _check_written(adapter: SinkAdapter, numbers: Sequence[int]) -> None:
    """Each of them once."""
    found = Counter(adapter.written())
    lost = [each for each in numbers if found[each] == 0]
    repeated = [each for each in numbers if found[each] > 1]
    assert (lost, repeated) == ([], []), f"lost: {lost}, written twice: {repeated}"
    assert sorted(found) == list(numbers), "the sink wrote what it was not given"


def _check_failures(worker: SinkWorker) -> None:
    reported = [(each.partition, offset) for each in worker.failures for offset in each.offsets]
    assert len(set(reported)) == len(reported), "a record was reported twice"
    for each in worker.failures:
        assert each.failure.message.strip(), "a failure says why"
        assert each.failure.java_class, "a failure names the class that dead letters show"
        outside = [offset for offset in each.offsets if not each.start <= offset < each.end]
        assert outside == [], "a failure has rows of its group"


def _check_refused(what: str, call: Any) -> None:
    try:
        call()
    except (ConnectError, RetriableError):
        return
    raise AssertionError(f"{what} of a run that was replaced raises ConnectError or RetriableError")
