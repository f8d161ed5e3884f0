"""A worker's loop around a JDBC source, without a worker."""

from __future__ import annotations

import pickle
from typing import Any

from penstock.connect.connector import SourceOffset, partition_key
from penstock.connect.connectors.jdbc.source.connector import JdbcSource
from penstock.connect.data import schema as s
from tests.unit.connect.connectors.jdbc.jdbc import connection


class Worker:
    """A worker's loop around a source, which keeps the offsets topic in a dictionary."""

    def __init__(self, url: str, offsets: dict[str, SourceOffset] | None = None, **properties: str) -> None:
        named = {name.replace("_", "."): value for name, value in properties.items()}
        config = {**connection(url), "topic.prefix": "p-", "poll.interval.ms": "1", **named}
        self.source = JdbcSource("source", config)
        self.source.start()
        self.offsets = {} if offsets is None else offsets
        self.schemas: list[s.Schema] = []
        self.topics: set[str] = set()

    def poll(self) -> list[dict[str, Any]]:
        """Rows of one round of slices, read by copies of the connector."""
        found = []
        for slice_ in pickle.loads(pickle.dumps(self.source.plan(self.offsets))):
            copy = pickle.loads(pickle.dumps(self.source))
            for rows in copy.read(slice_):
                assert rows.group.value.schema is not None
                self.schemas.append(rows.group.value.schema)
                self.topics.update(rows.group.topic.to_pylist())
                found += rows.group.value.values.to_pylist()
                self.offsets[partition_key(slice_.partition)] = rows.offset
        return found

    def until(self, count: int) -> list[dict[str, Any]]:
        """Rows of as many rounds as `count` rows need."""
        found: list[dict[str, Any]] = []
        while len(found) < count:
            found += self.poll()
        return found
