"""Producer ids: in blocks, each committed before any of its ids is handed out."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from penstock.broker.producer_ids import PRODUCER_ID_BLOCK, ProducerIds
from penstock.core.ids import BrokerId, ProducerId
from penstock.metadata.changes import ProducerIdsAllocated
from penstock.metadata.store import Decide, OnDecided
from penstock.metadata.store_local import LocalJournal
from penstock.protocol.error_codes import BrokerError, ErrorCode
from tests.clocks import SeededEntropy
from tests.unit.broker.nodes import must_succeed
from tests.unit.metadata.stores import ImmediateStore, immediate_store


def opened(directory: Path) -> ImmediateStore:
    return immediate_store(directory, SeededEntropy().uuid)


def take(ids: ProducerIds) -> ProducerId:
    ids.when_available(must_succeed)
    return ids.allocate()


def test_an_id_is_never_handed_out_twice(tmp_path: Path) -> None:
    first = opened(tmp_path)
    ids = ProducerIds(first)
    assert [take(ids) for _ in range(PRODUCER_ID_BLOCK + 5)] == list(range(PRODUCER_ID_BLOCK + 5))
    assert first.committed == [ProducerIdsAllocated(ProducerId(1000)), ProducerIdsAllocated(ProducerId(2000))]
    # A crash: nothing is written on the way out, and the rest of the block is given up.
    first.close()
    second = opened(tmp_path)
    assert take(ProducerIds(second)) == 2 * PRODUCER_ID_BLOCK
    second.close()


def test_two_brokers_take_blocks_of_their_own(tmp_path: Path) -> None:
    store = opened(tmp_path)
    one, two = ProducerIds(store), ProducerIds(store)
    assert [take(one), take(two), take(one), take(two)] == [0, 1000, 1, 1001]
    store.close()


def test_a_block_that_cannot_be_committed_gives_no_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pwrite(fd: int, content: memoryview, position: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    store = opened(tmp_path)
    ids = ProducerIds(store)
    told: list[BrokerError | None] = []
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", pwrite)
        ids.when_available(told.append)
    assert [error and error.code for error in told] == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert take(ids) == 0
    store.close()


def test_a_store_that_does_not_answer_is_an_error_that_clients_retry(tmp_path: Path) -> None:
    class SilentStore(ImmediateStore):
        def propose(self, decide: Decide, on_decided: OnDecided) -> None:
            on_decided(BrokerError(ErrorCode.REQUEST_TIMED_OUT))

    store = SilentStore(LocalJournal.open(tmp_path, node_id=BrokerId(1), new_uuid=SeededEntropy().uuid))
    told: list[BrokerError | None] = []
    ProducerIds(store).when_available(told.append)
    assert [error and error.code for error in told] == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    store.close()


class SlowStore(ImmediateStore):
    """Commits when `settle` is called."""

    def propose(self, decide: Decide, on_decided: OnDecided) -> None:
        self.pending = [*getattr(self, "pending", []), (decide, on_decided)]

    def settle(self) -> None:
        pending, self.pending = self.pending, []
        for decide, on_decided in pending:
            super().propose(decide, on_decided)


def test_who_waits_for_a_block_shares_it_and_the_rest_wait_for_the_next(tmp_path: Path) -> None:

    store = SlowStore(LocalJournal.open(tmp_path, node_id=1, new_uuid=SeededEntropy().uuid))
    ids = ProducerIds(store)
    taken: list[ProducerId] = []

    def available(error: BrokerError | None) -> None:
        must_succeed(error)
        taken.append(ids.allocate())

    for _ in range(PRODUCER_ID_BLOCK + 3):
        ids.when_available(available)
    assert len(store.pending) == 1
    with pytest.raises(BrokerError) as raised:
        ids.allocate()
    assert raised.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert len(store.pending) == 1
    store.settle()
    assert taken == list(range(PRODUCER_ID_BLOCK))
    store.settle()
    assert taken == list(range(PRODUCER_ID_BLOCK + 3))
    store.close()
