"""What tests of JDBC connectors share: databases by JDBC URL, record groups, and a worker's loop without a worker."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

from penstock.connect.connector import Batch, BatchRefused, SinkConnector
from penstock.connect.data.records import Column, Failure, RecordGroup
from penstock.connect.data.schema import Schema
from penstock.core.guarantee import Guarantee
from penstock.core.ids import TopicPartition
from penstock.pipeline.sinks.table.databases import dialect_of

DATABASE_PARAMS: Final = [
    pytest.param("sqlite"),
    pytest.param("postgresql", marks=[pytest.mark.slow]),
    pytest.param("mysql", marks=[pytest.mark.slow]),
]


def connection(url: str) -> dict[str, str]:
    """The properties for a URL of tests/databases.py."""
    if url.startswith("sqlite"):
        return {"connection.url": f"jdbc:sqlite:{url.removeprefix('sqlite:///')}"}
    parts = urlsplit(url)
    config = {"connection.url": f"jdbc:{parts.scheme}://{parts.hostname}:{parts.port}{parts.path}"}
    config["connection.user"] = parts.username or ""
    if parts.password:
        config["connection.password"] = parts.password
    return config


def query(url: str, statement: str) -> list[tuple[Any, ...]]:
    database = dialect_of(url).connect_in_driver(url)
    try:
        return database.query(statement)
    finally:
        database.close()


def execute(url: str, *statements: str) -> None:
    database = dialect_of(url).connect_in_driver(url)
    try:
        for statement in statements:
            database.execute(statement)
    finally:
        database.close()


def quoted(url: str, name: str) -> str:
    return dialect_of(url).quoted(name)


def group(
    value: Schema | None,
    values: Sequence[Any],
    *,
    topic: str = "orders",
    key: Schema | None = None,
    keys: Sequence[Any] | None = None,
    rows: Sequence[int] | None = None,
    first_offset: int = 0,
) -> RecordGroup:
    """Records of partition 0, whose offsets are their rows."""
    count = len(values)
    numbers = list(rows) if rows is not None else list(range(count))
    key_values = pa.array(keys, key.arrow_type if key else None) if keys is not None else pa.nulls(count)
    return RecordGroup(
        rows=pa.array(numbers, pa.int64()),
        topic=pa.array([topic] * count, pa.string()),
        partition=pa.array([0] * count, pa.int32()),
        timestamp=pa.array([1_700_000_000_000] * count, pa.int64()),
        key=Column(key, key_values),
        value=Column(value, pa.array(values, value.arrow_type if value else None)),
        offset=pa.array([first_offset + number for number in numbers], pa.int64()),
    )


def staged(connector: SinkConnector, groups: Sequence[RecordGroup], task: int = 0) -> tuple[Any, list[Failure]]:
    """What a task of Spark's does: with a copy of the connector."""
    copy = pickle.loads(pickle.dumps(connector))
    guarantee: Guarantee = copy.config.get("guarantee", "at_least_once")
    writer = copy.open_writer(task, guarantee)
    failures: list[Failure] = []
    writer.refuse = failures.extend
    for each in groups:
        failures += writer.put(each)
    return pickle.loads(pickle.dumps(writer.finish())), failures


def batch(start: int, end: int, topic: str = "orders") -> Batch:
    return Batch({TopicPartition(topic, 0): (start, end)})


def write(connector: SinkConnector, *groups: RecordGroup, end: int | None = None, start: int = 0) -> list[Failure]:
    """One batch of one task, from its rows to its commit."""
    moved = batch(start, end if end is not None else start + sum(map(len, groups)))
    result, failures = staged(connector, groups)
    try:
        connector.commit([result], moved)
    except BatchRefused:
        result, failures = staged(connector, groups)
        connector.commit([result], Batch(moved.ranges, lambda _task, refused: failures.extend(refused)))
    return failures


def sink_config(url: str, **properties: str) -> Mapping[str, str]:
    """`insert_mode="upsert"` is insert.mode=upsert."""
    named = {name.replace("_", "."): value for name, value in properties.items()}
    return {**connection(url), "retry.backoff.ms": "10", "max.retries": "3", **named}
