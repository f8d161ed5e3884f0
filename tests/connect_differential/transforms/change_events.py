"""Random change events of Debezium, and rows of an outbox table."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from penstock.connect.data import schema as connect
from penstock.connect.data.records import Column, RecordGroup
from penstock.connect.data.schema import Schema, Type, struct
from tests.connect_differential.transforms.generator import Generator

_SOURCE = struct(
    {
        "version": connect.STRING,
        "connector": connect.STRING,
        "ts_ms": connect.INT64,
        "table": connect.STRING,
        "lsn": connect.INT64.optional(),
    },
    name="io.debezium.connector.postgresql.Source",
)
_TRANSACTION = struct(
    {"id": connect.STRING, "total_order": connect.INT64, "data_collection_order": connect.INT64},
    name="event.block",
    is_optional=True,
)
_PAYLOADS = (
    '{"id":1,"name":"x","tags":["a","b"],"nested":{"deep":1.5,"none":null}}',
    '{"id":5000000000,"list":[{"a":1},{"a":2,"b":"y"}]}',
    '{"empty":[],"flag":true}',
    "plain text",
    "",
    "   ",
    '{"bad":[1,"x"]}',
)


def _envelope(row: Schema, *, with_transaction: bool) -> Schema:
    fields = {
        "before": row.optional(),
        "after": row.optional(),
        "source": _SOURCE,
        "op": connect.STRING,
        "ts_ms": connect.INT64.optional(),
    }
    return struct({**fields, "transaction": _TRANSACTION} if with_transaction else fields, name="srv.db.t.Envelope")


def _event(generator: Generator, schema: Schema, operation: str, row: Any) -> dict[str, Any]:
    values = {field.name: generator.value(field.schema) for field in schema.fields}
    values["op"] = operation
    values["before"] = row() if operation in "ud" else None
    values["after"] = row() if operation in "cru" else None
    return values


def _group(generator: Generator, value: Column, *, is_sink: bool | None = None) -> RecordGroup:
    group = generator.group(len(value.values), is_sink=is_sink)
    return RecordGroup(
        group.rows, group.topic, group.partition, group.timestamp, group.key, value, group.headers, group.offset
    )


def change_events(generator: Generator, count: int) -> RecordGroup:
    row = struct(
        {
            "id": connect.INT32,
            "a": generator.schema(depth=2),
            "b": generator.schema(depth=2),
            "destination": connect.STRING.optional(),
        },
        name="srv.db.t.Value",
    )
    schema = _envelope(row, with_transaction=generator.chance(0.8)).optional()
    events = [
        None
        if generator.chance(0.15)
        else _event(generator, schema, generator.random.choice("crudt"), lambda: generator.value(row, nulls=False))
        for _ in range(count)
    ]
    return _group(generator, Column(schema, pa.array(events, schema.arrow_type)))


def outbox_events(generator: Generator, count: int, *, aggregate: str) -> RecordGroup:
    """Of a source: a record of a sink must have a partition, and the router takes it away."""
    stamp = Schema(Type.INT64, name="io.debezium.time.MicroTimestamp", version=1).optional()
    row = struct(
        {
            "id": connect.STRING,
            "aggregatetype": connect.STRING,
            "aggregateid": generator.random.choice((connect.STRING, connect.INT64)),
            "type": connect.STRING.optional(),
            "payload": connect.STRING.optional(),
            "at": stamp,
            "shard": connect.INT32,
            "version": connect.INT32,
        },
        name="srv.db.outbox.Value",
    )
    schema = _envelope(row, with_transaction=False).optional()

    def insert() -> dict[str, Any]:
        values: dict[str, Any] = generator.value(row, nulls=False)
        payload = generator.random.choice((*_PAYLOADS, None))
        return {**values, "aggregatetype": aggregate, "payload": payload, "version": 3}

    events = [
        None if generator.chance(0.1) else _event(generator, schema, generator.random.choice("ccccrud"), insert)
        for _ in range(count)
    ]
    return _group(generator, Column(schema, pa.array(events, schema.arrow_type)), is_sink=False)
