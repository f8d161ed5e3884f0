"""The tests of a source connector: slices, offsets, and that reading resumes from each of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import ClassVar

from penstock.connect.connector import SourceConnector
from penstock.testing.connectors.adapters import SourceAdapter
from penstock.testing.connectors.declaration import NAME, DeclarationConformance
from penstock.testing.connectors.source_worker import Committed, SourceWorker, check_json


class SourceConformance(DeclarationConformance):
    adapter: ClassVar[type[SourceAdapter]]

    # Slices

    def test_nothing_is_planned_where_there_is_nothing(self, tmp_path: Path) -> None:
        with self._opened(tmp_path) as adapter, self._run(adapter, Committed()) as worker:
            assert sum(worker.move(each) for each in worker.plan()) == 0

    def test_all_records_are_read_once_and_in_order(self, tmp_path: Path) -> None:
        committed = Committed()
        with self._opened(tmp_path) as adapter, self._run(adapter, committed) as worker:
            adapter.put(range(20))
            worker.drain()
            assert worker.plan() == []
            _check(adapter, committed, range(20))
            adapter.put(range(20, 30))
            worker.drain()
            _check(adapter, committed, range(30))

    def test_slices_of_a_plan_share_no_record(self, tmp_path: Path) -> None:
        with self._opened(tmp_path) as adapter, self._run(adapter, Committed()) as worker:
            adapter.put(range(20))
            slices = worker.plan()
            assert slices
            found = []
            for each in slices:
                check_json(each.partition, each.offset or {})
                for moved in [*worker.read(each)][-1:]:
                    found += [adapter.number_of(value) for values in moved.values.values() for value in values]
            assert len(set(found)) == len(found), f"records of two slices: {sorted(found)}"

    def test_a_plan_changes_nothing(self, tmp_path: Path) -> None:
        """A worker plans again after a failure, with the same offsets."""
        committed = Committed()
        with self._opened(tmp_path) as adapter, self._run(adapter, committed) as worker:
            adapter.put(range(20))
            for _ in range(3):
                worker.plan()
            worker.drain()
            _check(adapter, committed, range(20))

    # Offsets

    def test_a_new_run_goes_on_from_the_offsets(self, tmp_path: Path) -> None:
        committed = Committed()
        with self._opened(tmp_path) as adapter:
            for start in range(0, 30, 10):
                adapter.put(range(start, start + 10))
                with self._run(adapter, committed) as worker:
                    worker.drain()
                _check(adapter, committed, range(start + 10))

    def test_reading_resumes_from_every_offset(self, tmp_path: Path) -> None:
        """A slice may end behind each offset that it yields; the rest is then read from there, by a new run."""
        with self._opened(tmp_path) as adapter:
            adapter.put(range(20))
            before, resumed = Committed(), 0
            for _ in range(50):
                with self._run(adapter, before) as worker:
                    slices = worker.plan()
                    if not slices:
                        break
                    prefixes = [(each, [*worker.read(each)]) for each in slices]
                for _, moved in ((each, moved) for each, found in prefixes for moved in found):
                    after = before.copy()
                    after.add(moved)
                    with self._run(adapter, after) as worker:
                        worker.drain()
                    _check(adapter, after, range(20))
                    resumed += 1
                for _, found in prefixes:
                    if found:
                        before.add(found[-1])
            assert resumed > 0, "no slice yielded an offset"

    def test_a_read_that_stops_anywhere_is_read_again(self, tmp_path: Path) -> None:
        """A task that fails commits nothing, whatever it has read."""
        committed = Committed()
        with self._opened(tmp_path) as adapter:
            adapter.put(range(20))
            for stop_after in range(5):
                with self._run(adapter, committed) as worker:
                    for each in worker.plan():
                        read = worker.read(each)
                        for _ in zip(range(stop_after), read, strict=False):
                            pass
                        read.close()
            with self._run(adapter, committed) as worker:
                worker.drain()
            _check(adapter, committed, range(20))

    def test_its_own_offsets_may_be_set_by_a_person(self, tmp_path: Path) -> None:
        """`GET /connectors/NAME/offsets` shows them, and `PATCH` takes them back; null removes one (KIP-875)."""
        committed = Committed()
        with self._opened(tmp_path) as adapter, self._run(adapter, committed) as worker:
            adapter.put(range(20))
            worker.drain()
            assert committed.offsets
            shown = [(json.loads(key), json.loads(offset)) for key, offset in committed.offsets.items()]
            self.adapter.connector.check_offsets(adapter.config(), shown)
            self.adapter.connector.check_offsets(adapter.config(), [(partition, None) for partition, _ in shown])

    def test_offsets_that_were_removed_are_read_again(self, tmp_path: Path) -> None:
        committed = Committed()
        with self._opened(tmp_path) as adapter:
            adapter.put(range(20))
            for _ in range(2):
                committed.offsets.clear()
                with self._run(adapter, committed) as worker:
                    worker.drain()
            numbers = sorted(adapter.number_of(value) for value in committed.all_values())
            assert numbers == sorted([*range(20), *range(20)])

    def test_the_replay_of_offsets_is_declared(self) -> None:
        why = self.adapter.connector.exactly_once
        assert why is None or why.strip(), "exactly_once is None, or says why offsets cannot be replayed"

    # How tests run it

    @contextmanager
    def _run(self, adapter: SourceAdapter, committed: Committed) -> Iterator[SourceWorker]:
        connector: SourceConnector = self.adapter.connector(NAME, adapter.config())
        with ExitStack() as stack:
            stack.callback(connector.stop)
            connector.target = adapter.target()
            connector.start()
            yield SourceWorker(connector, committed)


def _check(adapter: SourceAdapter, committed: Committed, numbers: Sequence[int]) -> None:
    """All of them once, and in their order within each source partition."""
    for key, values in committed.values.items():
        found = [adapter.number_of(value) for value in values]
        assert found == sorted(found), f"source partition {key} is out of order: {found}"
    found = sorted(adapter.number_of(value) for value in committed.all_values())
    lost, repeated = sorted(set(numbers) - set(found)), sorted({each for each in found if found.count(each) > 1})
    assert found == list(numbers), f"lost: {lost}, read twice: {repeated}"
