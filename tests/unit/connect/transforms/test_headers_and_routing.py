"""DropHeaders, InsertHeader, HeaderFrom, RegexRouter, TimestampRouter, and the predicates."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.connect.config.definition import ConfigException
from penstock.connect.data import schema as connect
from penstock.connect.data.records import Column
from penstock.connect.data.schema import Schema, Type, struct
from tests.unit.connect.transforms.record_groups import apply, column, failures, group, only, plugin

TEXT = Column(connect.STRING, pa.array(["x", "y"]))
RECORDS = group(column(None, [{"a": 1}, {"a": 2}]), headers=(("h", TEXT), ("i", TEXT), ("h", TEXT)))


def test_drop_headers_drops_all_of_a_name() -> None:
    assert [name for name, _ in only(apply("DropHeaders", {"headers": "h"}, RECORDS)).headers] == ["i"]


def test_insert_header_infers_the_schema() -> None:
    inserted = only(apply("InsertHeader", {"header": "n", "value.literal": "[1, 300]"}, RECORDS)).headers[-1]
    assert inserted == ("n", Column(Schema(Type.ARRAY, value_schema=connect.INT16), inserted[1].values))
    assert inserted[1].values.to_pylist() == [[1, 300], [1, 300]]


def test_a_list_of_different_types_is_refused() -> None:
    with pytest.raises(ConfigException, match="must have one type"):
        plugin("InsertHeader", {"header": "n", "value.literal": '[1,"a"]'})


def test_header_from_moves_and_copies() -> None:
    records = group(column(struct({"a": connect.INT32, "b": connect.STRING}), [{"a": 1, "b": "x"}]))
    config = {"fields": "b", "headers": "from-b"}
    moved = only(apply("HeaderFrom$Value", {**config, "operation": "move"}, records))
    assert moved.value.values.to_pylist() == [{"a": 1}]
    assert moved.headers[0][0] == "from-b"
    assert moved.headers[0][1].values.to_pylist() == ["x"]
    copied = only(apply("HeaderFrom$Value", {**config, "operation": "copy"}, records))
    assert copied.value == records.value


def test_header_from_needs_as_many_headers_as_fields() -> None:
    with pytest.raises(
        ConfigException, match="'fields' config must have the same number of elements as 'headers' config"
    ):
        plugin("HeaderFrom$Value", {"fields": "a,b", "headers": "x", "operation": "copy"})


@pytest.mark.parametrize(
    ("regex", "replacement", "topic"),
    [
        ("(.*)", "new-$1", "new-orders"),
        ("(?<name>\\w+)", "${name}.v2", "orders.v2"),
        ("order", "x", "orders"),
        ("o(r)(d).*", "$2$1\\$$0", "dr$orders"),
        ("\\p{Alpha}++", "letters", "letters"),
        ("(o)rders", "$12", "o2"),
    ],
)
def test_regex_router(regex: str, replacement: str, topic: str) -> None:
    routed = only(apply("RegexRouter", {"regex": regex, "replacement": replacement}, RECORDS))
    assert routed.topic.to_pylist() == [topic, topic]


def test_regex_router_fails_where_a_group_is_missing() -> None:
    result = apply("RegexRouter", {"regex": ".*", "replacement": "$1"}, RECORDS)
    assert failures(result) == {100: "No group 1", 101: "No group 1"}
    assert result.failures[0].java_class == "java.lang.IndexOutOfBoundsException"


@pytest.mark.parametrize("regex", ["(", "[a-z&&[b]]", "\\p{IsGreek}"])
def test_regular_expressions_that_cannot_be_used_are_refused(regex: str) -> None:
    with pytest.raises(ConfigException, match="Invalid regex: "):
        plugin("RegexRouter", {"regex": regex, "replacement": "x"})


def test_timestamp_router_writes_the_timestamp() -> None:
    config = {"topic.format": "${topic}_${timestamp}", "timestamp.format": "yyyy-MM-dd'T'HH"}
    assert only(apply("TimestampRouter", config, RECORDS)).topic.to_pylist() == ["orders_2023-11-14T22"] * 2


def test_timestamp_router_needs_a_timestamp() -> None:
    records = group(column(None, [1, 2]), timestamp=pa.array([None, 0], pa.int64()))
    result = apply("TimestampRouter", {}, records)
    assert list(failures(result)) == [100]
    assert [each.topic.to_pylist() for each in result.groups] == [["orders-19700101"]]


def test_predicates() -> None:
    tombstones = group(Column(None, pa.nulls(2)), topic="other")
    assert plugin("predicates.RecordIsTombstone", {}).test(tombstones).to_pylist() == [True, True]
    assert plugin("predicates.RecordIsTombstone", {}).test(RECORDS).to_pylist() == [False, False]
    assert plugin("predicates.HasHeaderKey", {"name": "i"}).test(RECORDS).to_pylist() == [True, True]
    assert plugin("predicates.HasHeaderKey", {"name": "no"}).test(RECORDS).to_pylist() == [False, False]
    matches = plugin("predicates.TopicNameMatches", {"pattern": "ord.*"})
    assert matches.test(RECORDS).to_pylist() == [True, True]
    assert matches.test(tombstones).to_pylist() == [False, False]
    with pytest.raises(ConfigException, match="String must be non-empty"):
        plugin("predicates.HasHeaderKey", {"name": ""})
