"""A person changes offsets of sources: in topics, in a standalone worker's file, and in a connector's own topic."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from penstock.connect.runtime.client_settings import WorkerProperties
from penstock.connect.runtime.connector_offsets import ConnectorOffsets
from penstock.connect.storage.offset_file import OffsetFile
from penstock.testing import Broker

A, B = {"filename": "a.txt"}, {"filename": "b.txt"}


@pytest.mark.parametrize("own", [False, True], ids=["workers-storage", "own-topic"])
@pytest.mark.parametrize("standalone", [False, True], ids=["distributed", "standalone"])
def test_offsets_are_set_changed_and_reset(broker: Broker, tmp_path: Path, standalone: bool, own: bool) -> None:
    name = f"reader-{uuid4().hex[:8]}"
    file = OffsetFile(tmp_path / "connect.offsets") if standalone else None
    worker = {"bootstrap.servers": broker.bootstrap_servers, "offset.storage.topic": f"{name}-offsets"}
    config = {"offsets.storage.topic": f"{name}-own"} if own else {}
    shared = ConnectorOffsets(WorkerProperties(worker), file)
    shared.alter_source(name, {}, [(A, {"position": 1}), (B, {"position": 1})], 1)
    shared.alter_source(name, config, [(A, {"position": 2})], 1)
    # A connector's own topic wins, and the worker's storage counts for partitions that are not in it.
    assert sorted(shared.of_source(name, config), key=str) == [(A, {"position": 2}), (B, {"position": 1})]
    expected = {"position": 1 if own else 2}
    assert [offset for partition, offset in shared.of_source(name, {}) if partition == A] == [expected]
    shared.alter_source(name, config, None, 1)
    assert shared.of_source(name, config) == []
    assert shared.of_source(name, {}) == []
