"""ExtractNewRecordState and the outbox EventRouter."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from penstock.connect.config.connector_config import WorkerDefaults
from penstock.connect.config.definition import ConfigException
from penstock.connect.config.validation import validate
from penstock.connect.data import schema as connect
from penstock.connect.data.records import RecordGroup, StepResult
from penstock.connect.data.schema import Schema, Type, struct
from penstock.connect.plugins import Plugins
from penstock.connect.transforms.debezium.json_payload import NotExpandableError, expand
from tests.unit.connect.transforms.record_groups import apply, column, failures, group, plugin, values

UNWRAP = "io.debezium.transforms.ExtractNewRecordState"
JSON = "org.apache.kafka.connect.json.JsonConverter"
OUTBOX = "io.debezium.transforms.outbox.EventRouter"
ROW = struct({"id": connect.INT32, "name": connect.STRING.optional()}, name="db.t.Value", is_optional=True)
SOURCE = struct({"table": connect.STRING, "ts_ms": connect.INT64}, name="source")


def envelope(row: Schema) -> Schema:
    fields = {"before": row, "after": row, "source": SOURCE, "op": connect.STRING, "ts_ms": connect.INT64}
    return struct(fields, name="db.t.Envelope", is_optional=True)


def event(operation: str, before: Any = None, after: Any = None) -> dict[str, Any]:
    return {"op": operation, "before": before, "after": after, "source": {"table": "t", "ts_ms": 5}, "ts_ms": 9}


ADA, BOB = {"id": 1, "name": "Ada"}, {"id": 2, "name": "Bob"}


def changes() -> RecordGroup:
    """An insert, an update, a delete with its tombstone, and a truncation."""
    events = [event("c", after=ADA), event("u", ADA, BOB), event("d", before=BOB), None, event("t")]
    return group(column(envelope(ROW), events))


def unwrapped(config: dict[str, str]) -> StepResult:
    return apply(UNWRAP, config, changes())


def by_row(result: StepResult) -> dict[int, Any]:
    return {
        row: value
        for each in result.groups
        for row, value in zip(each.rows.to_pylist(), each.value.values.to_pylist(), strict=True)
    }


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, {100: ADA, 101: BOB, 102: None}),
        ({"delete.tombstone.handling.mode": "drop"}, {100: ADA, 101: BOB}),
        ({"delete.tombstone.handling.mode": "delete-to-tombstone"}, {100: ADA, 101: BOB, 102: None}),
        (
            {"delete.tombstone.handling.mode": "rewrite"},
            {
                100: {**ADA, "__deleted": "false"},
                101: {**BOB, "__deleted": "false"},
                102: {**BOB, "__deleted": "true"},
            },
        ),
        ({"drop.tombstones": "false"}, {100: ADA, 101: BOB, 103: None}),
        ({"delete.handling.mode": "none"}, {100: ADA, 101: BOB, 102: None}),
    ],
)
def test_a_change_becomes_the_row(config: dict[str, str], expected: dict[int, Any]) -> None:
    result = unwrapped(config)
    assert result.failures == ()
    assert by_row(result) == expected


def test_a_tombstone_can_be_without_a_schema() -> None:
    schemas = {
        mode: [each.value.schema for each in unwrapped({"delete.tombstone.handling.mode": mode}).groups][-1]
        for mode in ("tombstone", "delete-to-tombstone")
    }
    assert schemas == {"tombstone": ROW, "delete-to-tombstone": None}


def test_fields_and_headers_are_added() -> None:
    config = {"add.fields": "op,table,source.ts_ms:SOURCE_TS", "add.headers": "op", "drop.tombstones": "false"}
    result = unwrapped(config)
    assert by_row(result)[101] == {**BOB, "__op": "u", "__table": "t", "__SOURCE_TS": 5}
    operations = {
        row: value
        for each in result.groups
        for row, value in zip(each.rows.to_pylist(), dict(each.headers)["__op"].values.to_pylist(), strict=True)
    }
    assert operations == {100: "c", 101: "u", 103: "d"}


def test_a_column_can_decide_the_topic() -> None:
    result = unwrapped({"route.by.field": "name", "delete.tombstone.handling.mode": "rewrite"})
    topics = {
        row: topic
        for each in result.groups
        for row, topic in zip(each.rows.to_pylist(), each.topic.to_pylist(), strict=True)
    }
    assert topics == {100: "Ada", 101: "Bob", 102: "Bob"}
    assert set(failures(unwrapped({"route.by.field": "id"})).values()) == {"Field 'id' is not of type STRING"}


def test_other_records_pass() -> None:
    records = group(column(None, [{"heartbeat": 1}]))
    assert apply(UNWRAP, {}, records).groups == (records,)


def test_what_is_not_supported_is_refused() -> None:
    with pytest.raises(ConfigException, match=r"drop\.fields\.header\.name"):
        plugin(UNWRAP, {"drop.fields.header.name": "x"})


# The outbox

EVENT = struct(
    {
        "id": connect.STRING,
        "aggregatetype": connect.STRING,
        "aggregateid": connect.STRING,
        "type": connect.STRING,
        "payload": connect.STRING.optional(),
        "at": dataclasses.replace(connect.INT64, name="io.debezium.time.MicroTimestamp"),
        "shard": connect.INT32,
    },
    name="db.outbox.Value",
    is_optional=True,
)


def outbox_row(payload: str | None, aggregate: str = "Order") -> dict[str, Any]:
    names = {"id": "e1", "aggregatetype": aggregate, "aggregateid": "42", "type": "Created"}
    return {**names, "payload": payload, "at": 7_000_000, "shard": 6}


def outbox(*payloads: str | None) -> RecordGroup:
    events = [event("c", after=outbox_row(payload)) for payload in payloads]
    return group(column(envelope(EVENT), events), is_source=True)


def test_an_insert_becomes_an_event_of_its_topic() -> None:
    (routed,) = apply(OUTBOX, {}, outbox("{}", None)).groups
    assert routed.topic.to_pylist() == ["outbox.event.Order"] * 2
    assert routed.key.values.to_pylist() == ["42", "42"]
    assert routed.value.values.to_pylist() == ["{}", None]
    assert routed.timestamp.to_pylist() == [9, 9]
    assert routed.partition.to_pylist() == [None, None]
    assert [(name, header.values.to_pylist()) for name, header in routed.headers] == [("id", ["e1", "e1"])]


def test_additional_columns_find_their_place() -> None:
    placement = "type:header:event-type,shard:partition,type:envelope"
    config = {
        "table.fields.additional.placement": placement,
        "table.field.event.timestamp": "at",
        "route.topic.replacement": "events.${routedByValue}",
    }
    (routed,) = apply(OUTBOX, config, outbox("x")).groups
    assert routed.value.values.to_pylist() == [{"payload": "x", "type": "Created"}]
    assert routed.value.schema is not None
    assert routed.value.schema.name == "db.outbox.Order.Value"
    assert routed.partition.to_pylist() == [6]
    assert routed.timestamp.to_pylist() == [7000]
    assert routed.topic.to_pylist() == ["events.Order"]
    assert dict(routed.headers)["event-type"].values.to_pylist() == ["Created"]


def test_an_empty_payload_can_be_a_tombstone() -> None:
    result = apply(OUTBOX, {"route.tombstone.on.empty.payload": "true"}, outbox(" ", "x"))
    assert values(result) == [None, "x"]


def test_payloads_of_json_are_expanded() -> None:
    config = {"table.expand.json.payload": "true"}
    result = apply(OUTBOX, config, outbox(json.dumps({"a": 1, "b": ["x"]}), "text", json.dumps({"a": 2, "b": ["y"]})))
    assert values(result) == [{"a": 1, "b": ["x"]}, "text", {"a": 2, "b": ["y"]}]
    assert len(result.groups) == 2


def test_the_schema_of_a_payload() -> None:
    schema, value = expand('{"n": 5000000000, "o": {"f": 1.5}, "none": null}', "payload", keeps_null=False)
    assert [(field.name, field.schema.type, field.schema.name) for field in schema.fields] == [
        ("n", Type.INT64, None),
        ("o", Type.STRUCT, "payload.o"),
    ]
    assert value == {"n": 5_000_000_000, "o": {"f": 1.5}}
    with pytest.raises(NotExpandableError):
        expand('{"a": [1, "x"]}', "payload", keeps_null=False)


def test_other_operations_are_skipped_or_refused() -> None:
    row = outbox_row("x")
    records = group(column(envelope(EVENT), [event("d", before=row), event("u", row, row), None]), is_source=True)
    assert apply(OUTBOX, {}, records) == StepResult((), ())
    refused = apply(OUTBOX, {"table.op.invalid.behavior": "fatal"}, records)
    assert failures(refused) == {101: "Unexpected update message received null, fail."}


@pytest.mark.parametrize("placement", ["type", "type:nowhere", "a:header:b:c"])
def test_bad_placements_are_refused(placement: str) -> None:
    with pytest.raises(ConfigException, match=r"table\.fields\.additional\.placement"):
        plugin(OUTBOX, {"table.fields.additional.placement": placement})


def test_a_missing_payload_column_fails() -> None:
    result = apply(OUTBOX, {"table.field.event.payload": "nope"}, outbox("x"))
    assert failures(result) == {100: "Unable to find payload field nope in event"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tracing.span.context.field", "tracingspancontext"),
        ("tracing.operation.name", "debezium-read"),
        ("tracing.with.context.field.only", "false"),
    ],
)
def test_tracing_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(ConfigException, match=f"The property {name} is not supported"):
        plugin(OUTBOX, {name: value})
    config = {
        "connector.class": "FileStreamSink", "name": "s", "topics": "t", "transforms": "o",
        "transforms.o.type": OUTBOX, f"transforms.o.{name}": value,
    }  # fmt: skip
    (mistake,) = validate(Plugins(), config, WorkerDefaults(JSON, JSON)).errors
    assert f"The property {name} is not supported" in mistake
