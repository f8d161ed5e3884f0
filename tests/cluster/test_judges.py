"""What judges a soak finds what it is to find, and a plan repeats."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.cluster.faults import Fault, plan
from tests.cluster.replica_files import differences
from tests.record_batches import Record, encode_batch


def batch(value: bytes, base_offset: int) -> bytes:
    return bytes(encode_batch([Record(value)], base_offset=base_offset))


def write(directory: Path, *batches: bytes) -> Path:
    directory.mkdir()
    (directory / "00000000000000000000.log").write_bytes(b"".join(batches))
    return directory


def test_equal_replicas_do_not_differ(tmp_path: Path) -> None:
    batches = [batch(b"a", 0), batch(b"b", 1)]
    replicas = {number: write(tmp_path / str(number), *batches) for number in (1, 2, 3)}
    assert differences("orders-0", replicas) == []


def test_another_value_at_an_offset_is_found(tmp_path: Path) -> None:
    first = batch(b"a", 0)
    replicas = {
        1: write(tmp_path / "1", first, batch(b"b", 1)),
        2: write(tmp_path / "2", first, batch(b"c", 1)),
    }
    (difference,) = differences("orders-0", replicas)
    assert "brokers 1 and 2 differ in 1 of 2 batches, first at offset 1" in difference


def test_a_replica_that_ends_early_is_found(tmp_path: Path) -> None:
    first = batch(b"a", 0)
    replicas = {1: write(tmp_path / "1", first, batch(b"b", 1)), 2: write(tmp_path / "2", first)}
    (difference,) = differences("orders-0", replicas)
    assert "differ in 1 of 2 batches" in difference


def test_a_plan_repeats_and_has_every_kind_of_fault() -> None:
    planned = plan(100, 7, 3.0)
    assert planned == plan(100, 7, 3.0)
    assert planned != plan(100, 8, 3.0)
    counts = Counter(each.fault for each in planned)
    assert set(counts) == set(Fault)
    assert min(counts.values()) >= 4
