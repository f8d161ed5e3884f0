from __future__ import annotations

from pathlib import Path

import pytest

from penstock.connect.connector import ConnectError
from penstock.connect.connectors.file.ledger import FileLedger
from penstock.core.ids import TopicPartition

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "copy.txt"


def append(ledger: FileLedger, run: str, content: bytes) -> None:
    with ledger.hold(run) as data:
        data.write(content)


def test_what_was_not_committed_is_cut_off_by_the_next_run(file: Path) -> None:
    ledger = FileLedger(file)
    ledger.begin("one")
    append(ledger, "one", b"a\n")
    ledger.commit("one", {ORDERS: 1})
    append(ledger, "one", b"b\n")
    assert ledger.begin("two").offsets == {ORDERS: 1}
    assert file.read_bytes() == b"a\n"


def test_an_earlier_run_can_neither_append_nor_commit(file: Path) -> None:
    ledger = FileLedger(file)
    ledger.begin("one")
    ledger.begin("two")
    with pytest.raises(ConnectError, match="taken over"):
        append(ledger, "one", b"late\n")
    with pytest.raises(ConnectError, match="taken over"):
        ledger.commit("one", {ORDERS: 9})
    assert file.read_bytes() == b""


def test_lines_that_were_there_before_the_first_run_stay(file: Path) -> None:
    file.write_bytes(b"before\n")
    ledger = FileLedger(file)
    ledger.begin("one")
    append(ledger, "one", b"lost\n")
    ledger.begin("two")
    assert file.read_bytes() == b"before\n"


def test_a_file_that_was_moved_away_begins_again_and_another_one_is_refused(file: Path) -> None:
    ledger = FileLedger(file)
    ledger.begin("one")
    append(ledger, "one", b"a\n")
    ledger.commit("one", {ORDERS: 1})
    file.rename(file.with_name("moved.txt"))
    assert ledger.begin("two").length == 0
    file.with_name("other.txt").write_bytes(b"unknown\n")
    file.with_name("other.txt").rename(file)
    with pytest.raises(ConnectError, match="not the file that the ledger"):
        ledger.begin("three")


def test_a_person_changes_offsets_and_a_run_that_still_ends_cannot_commit(file: Path) -> None:
    ledger = FileLedger(file)
    ledger.begin("one")
    ledger.commit("one", {ORDERS: 5, TopicPartition("orders", 1): 7})
    ledger.set_offsets({ORDERS: 2, TopicPartition("orders", 1): None})
    with pytest.raises(ConnectError, match="taken over"):
        ledger.commit("one", {ORDERS: 6})
    assert ledger.begin("two").offsets == {ORDERS: 2}


def test_a_ledger_that_cannot_be_read_says_what_to_do(file: Path) -> None:
    file.with_name(".copy.txt.ledger").write_text("{}")
    with pytest.raises(ConnectError, match="restore it, or remove it"):
        FileLedger(file).begin("one")
