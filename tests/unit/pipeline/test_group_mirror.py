"""The offsets that a pipeline mirrors say that they are a copy of its checkpoint."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.ids import TopicPartition
from penstock.core.mirrored_offsets import MirroredFrom, mirrored_from
from penstock.pipeline import group_mirror


class Client:
    committed: dict[str, Any]

    def __init__(self, _settings: object) -> None:
        type(self).committed = {}

    def offset_commit(self, group: str, offsets: Any, *, timeout_s: float) -> None:
        self.committed[group] = dict(offsets)

    def close(self) -> None:
        pass


class Source:
    def reads(self, topic: str) -> bool:
        return topic == "orders"


def test_a_mirrored_offset_names_the_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_mirror, "WireClient", Client)
    sources: Any = [(Source(), {"bootstrap.servers": "a:1"})]
    mirror = group_mirror.GroupMirror("revenue", sources, checkpoint="/data/revenue")
    place = TopicPartition("orders", 0)
    mirror.commit({place: 7, TopicPartition("other", 0): 1})
    committed = Client.committed["revenue"]
    assert {partition: offset.offset for partition, offset in committed.items()} == {place: 7}
    assert mirrored_from([committed[place].metadata]) == MirroredFrom("checkpoint", "/data/revenue")
