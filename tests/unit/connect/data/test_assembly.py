"""Raw records become groups of equal schema; groups become raw records in their old order."""

from __future__ import annotations

import pickle
from typing import Final

import pyarrow as pa
import pytest

from penstock.columns.encoding import ColumnEncoder
from penstock.columns.partitioning import ColumnPartitioner
from penstock.connect.converters.configured import Converters, converters_of
from penstock.connect.data.assembly import RAW_SCHEMA, by_topic, to_groups, to_originals, to_raw
from penstock.connect.data.records import Column, RecordGroup
from penstock.connect.data.schema import INT64, Type
from penstock.connect.errors.policy import ErrorPolicy
from penstock.connect.errors.stage import Stage
from tests.unit.connect.raw_records import Headers, raw_records

JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
WORKER: Final = {"key.converter": "org.apache.kafka.connect.storage.StringConverter", "value.converter": JSON}


def converters(**properties: str) -> Converters:
    config = {"value.converter.schemas.enable": "false", **WORKER}
    return converters_of({name.replace("_", "."): value for name, value in properties.items()}, config)


def test_records_of_one_shape_are_one_group() -> None:
    batch = raw_records([b'{"id":1}', b'{"id":2}'], keys=[b"a", None])
    (group,) = to_groups(batch, converters()).groups
    assert group.rows.to_pylist() == [0, 1]
    assert group.key.values.to_pylist() == ["a", None]
    assert group.value.values.to_pylist() == [{"id": 1}, {"id": 2}]
    assert group.topic.to_pylist() == ["orders", "orders"]
    assert group.partition.to_pylist() == [3, 3]
    assert group.offset is not None
    assert group.offset.to_pylist() == [100, 101]
    assert group.timestamp.to_pylist() == [0, 1]
    assert group.headers == ()


def test_groups_differ_in_value_or_in_headers() -> None:
    values = [b'{"id":1}', b'{"id":"x"}', b'{"id":2}', None, b'{"id":3}']
    headers = [[("h", b"1")], [], [("h", b"text")], [], [("h", b"2"), ("g", b"x")]]
    groups = to_groups(raw_records(values, headers=headers), converters()).groups
    assert sorted(group.rows.to_pylist() for group in groups) == [[0], [1], [2], [3], [4]]
    by_row = {group.rows[0].as_py(): group for group in groups}
    ((name, column),) = by_row[0].headers
    assert name == "h"
    assert column.schema is not None
    assert column.schema.type is Type.INT8
    assert column.values.to_pylist() == [1]
    assert [name for name, _column in by_row[4].headers] == ["h", "g"]


def test_records_with_equal_headers_stay_together() -> None:
    headers = [[("h", b"1")], [], [("h", b"2")], []]
    groups = to_groups(raw_records([b"1"] * 4, headers=headers), converters()).groups
    assert sorted(group.rows.to_pylist() for group in groups) == [[0, 2], [1, 3]]


def test_a_record_fails_at_its_first_stage_only() -> None:
    batch = raw_records([b"{", b"{", b"1"], keys=[b"\1", b"\1\2", b"\0"], headers=[[], [], [("h", b"{")]])
    assembled = to_groups(
        batch,
        converters(
            key_converter="org.apache.kafka.connect.converters.BooleanConverter",
            header_converter="org.apache.kafka.connect.converters.IntegerConverter",
        ),
    )
    assert not assembled.groups
    assert [(each.stage, list(each.failure.rows)) for each in assembled.failures] == [
        (Stage.KEY_CONVERTER, [1]),
        (Stage.VALUE_CONVERTER, [0]),
        (Stage.HEADER_CONVERTER, [2]),
    ]
    assert assembled.failures[0].executing_class == "org.apache.kafka.connect.converters.BooleanConverter"
    assert assembled.failures[2].failure.message == "Failed to deserialize integer: "


def test_kafkas_missing_timestamp_is_null() -> None:
    (group,) = to_groups(raw_records([b"1", b"1"], timestamps_ms=[-1, 5]), converters()).groups
    assert group.timestamp.to_pylist() == [None, 5]


def test_raw_records_come_back_in_their_order() -> None:
    values = [b'{"id":1}', b'{"id":"x"}', b'{"id":2}', None]
    headers: list[Headers] = [[("h", b"1"), ("g", None)], [], [("h", b"x")], []]
    batch = raw_records(values, keys=[b"a", b"b", None, b"c"], headers=headers)
    pickled: Converters = pickle.loads(pickle.dumps(converters()))
    raw = to_raw(to_groups(batch, pickled).groups, pickled)
    assert not raw.failures
    assert raw.records.schema == RAW_SCHEMA
    for name in ("key", "value", "topic", "partition", "headers"):
        assert raw.records.column(name).to_pylist() == batch.column(name).to_pylist()
    assert raw.records.column("timestamp").cast(pa.int64()).to_pylist() == [0, 1, 2, 3]


def test_the_encoder_takes_the_records_of_a_topic() -> None:
    batch = raw_records([b"1", b"2", b"3"], topics=["a", "b", "a"], headers=[[("h", b"1")], [], []])
    topics = by_topic(to_raw(to_groups(batch, converters()).groups, converters()).records)
    assert {topic: records.column("value").to_pylist() for topic, records in topics.items()} == {
        "a": [b"1", b"3"],
        "b": [b"2"],
    }
    encoder = ColumnEncoder(ColumnPartitioner(4))
    assert [each.records_count for each in encoder.encode(topics["a"], 0)] == [2]


def test_rows_that_cannot_be_written_are_failures() -> None:
    value = Column(INT64, pa.array([1, None, 3]))
    rows = pa.array([7, 8, 9])
    nothing = Column(None, pa.nulls(3))
    group = RecordGroup(rows, pa.array(["t"] * 3), pa.nulls(3, pa.int32()), pa.nulls(3, pa.int64()), nothing, value)
    raw = to_raw([group], converters())
    assert raw.records.column("row").to_pylist() == [7, 9]
    assert raw.records.column("value").to_pylist() == [b"1", b"3"]
    (failed,) = raw.failures
    assert list(failed.failure.rows) == [8]
    assert failed.stage is Stage.VALUE_CONVERTER


def test_a_source_keeps_what_its_failed_records_are_converted_to() -> None:
    value = Column(INT64, pa.array([1, None]))
    group = RecordGroup(
        pa.array([7, 9]),
        pa.array(["t", "t"]),
        pa.nulls(2, pa.int32()),
        pa.nulls(2, pa.int64()),
        Column(None, pa.nulls(2)),
        value,
    )
    originals = to_originals([group], converters())
    assert originals.column("value").to_pylist() == [b"1", b"null"]
    policy = ErrorPolicy(tolerance="all", dead_letter_topic="dlq", context_headers=True)
    failures = to_raw([group], converters()).failures
    letters = policy.decide(failures, originals, connector="files", task=0).dead_letters
    assert letters is not None
    (letter,) = letters.to_pylist()
    assert letter["value"] == b"null"
    names = [header["key"] for header in letter["headers"]]
    assert "__connect.errors.topic" in names
    assert "__connect.errors.offset" not in names


@pytest.mark.parametrize("count", [0, 1])
def test_few_records_are_assembled(count: int) -> None:
    batch = raw_records([b"1"] * count)
    raw = to_raw(to_groups(batch, converters()).groups, converters())
    assert raw.records.num_rows == count
