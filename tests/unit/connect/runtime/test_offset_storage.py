"""Where the offsets of a source are, and a standalone worker's file. Topics have their tests with a broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.connect.connector import partition_key
from penstock.connect.runtime.client_settings import WorkerProperties
from penstock.connect.runtime.offset_storage import OffsetsFile, OffsetsTopics, offset_storage
from penstock.connect.storage.offset_file import OffsetFile

NO_CLIENT: Any = None
PARTITION = {"filename": "a.txt", "host": "b"}
WORKER = WorkerProperties({"bootstrap.servers": "127.0.0.1:1", "offset.storage.topic": "offsets"})


@pytest.fixture
def file(tmp_path: Path) -> OffsetFile:
    return OffsetFile(tmp_path / "connect.offsets")


def test_a_distributed_worker_has_topics() -> None:
    storage = offset_storage(WORKER, None, "reader", {})
    assert isinstance(storage, OffsetsTopics)
    assert (storage.topic, storage.topics, storage.file) == ("offsets", ("offsets",), None)
    storage = offset_storage(WORKER, None, "reader", {"offsets.storage.topic": "own"})
    assert isinstance(storage, OffsetsTopics)
    assert (storage.topic, storage.topics) == ("own", ("offsets", "own"))


def test_a_standalone_worker_has_a_file(file: OffsetFile) -> None:
    assert offset_storage(WORKER, file, "reader", {}) == OffsetsFile(file)
    storage = offset_storage(WORKER, file, "reader", {"offsets.storage.topic": "own"})
    assert isinstance(storage, OffsetsTopics)
    assert (storage.topic, storage.topics, storage.file) == ("own", ("own",), OffsetsFile(file))


def test_the_file_keeps_the_offsets_of_each_connector(file: OffsetFile) -> None:
    storage = OffsetsFile(file)
    assert storage.topic is None
    storage.save("reader", [(PARTITION, {"position": 1})], {})
    storage.save("other", [(PARTITION, {"position": 9})], {})
    storage.save("reader", [(PARTITION, {"position": 2})], {})
    assert [each.offset for each in storage.read(NO_CLIENT, "reader").values()] == [{"position": 2}]
    storage.save("reader", [(PARTITION, None)], {})
    assert storage.read(NO_CLIENT, "reader") == {}
    assert [each.offset for each in storage.read(NO_CLIENT, "other").values()] == [{"position": 9}]


def test_a_partition_keeps_the_key_that_another_writer_has_given_it(file: OffsetFile) -> None:
    key = b'["reader",{"host":"b","filename":"a.txt"}]'
    file.write([(key, b'{"position":1}')])
    storage = OffsetsFile(file)
    stored = storage.read(NO_CLIENT, "reader")
    storage.save("reader", [(PARTITION, {"position": 2})], {name: each.key for name, each in stored.items()})
    assert list(stored) == [partition_key(PARTITION)]
    assert file.records() == {key: b'{"position":2}'}
