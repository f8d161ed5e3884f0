"""TimestampConverter and the patterns of SimpleDateFormat."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.connect.config.definition import ConfigException
from penstock.connect.data import schema as connect
from penstock.connect.data.schema import Schema, struct
from penstock.connect.transforms.java.date_format import PatternError, SimpleDateFormat
from tests.unit.connect.transforms.record_groups import apply, column, failures, group, only, plugin, values

MILLIS = 1_709_210_096_789  # 2024-02-29T12:34:56.789Z
FORMAT = "yyyy-MM-dd HH:mm:ss"


@pytest.mark.parametrize(
    ("source", "value", "target", "expected"),
    [
        (connect.timestamp(), MILLIS, "string", "2024-02-29 12:34:56"),
        (connect.timestamp(), MILLIS, "unix", MILLIS),
        (connect.timestamp(), MILLIS, "Date", 19782),
        (connect.timestamp(), MILLIS, "Time", 45_296_789),
        (connect.date(), 19782, "Timestamp", 19782 * 86_400_000),
        (connect.time(), 1000, "string", "1970-01-01 00:00:01"),
        (connect.INT64, -1, "Date", -1),
        (connect.STRING, "2024-02-29 12:34:56", "unix", 1_709_210_096_000),
        (connect.STRING, "2024-02-30 12:34:56", "unix", 1_709_296_496_000),
    ],
)
def test_from_one_form_to_another(source: Schema, value: object, target: str, expected: object) -> None:
    records = group(column(struct({"t": source, "o": connect.INT8}), [{"t": value, "o": 1}]))
    config = {"field": "t", "target.type": target, "format": FORMAT}
    assert values(apply("TimestampConverter$Value", config, records)) == [{"t": expected, "o": 1}]


def test_precision_of_unix_time() -> None:
    config = {"field": "t", "target.type": "Timestamp", "unix.precision": "microseconds"}
    records = group(column(struct({"t": connect.INT64}), [{"t": -1500}, {"t": 1500}]))
    assert values(apply("TimestampConverter$Value", config, records)) == [{"t": -1}, {"t": 1}]


def test_whole_values_and_nulls() -> None:
    records = group(column(connect.INT64.optional(), [MILLIS, None]))
    result = apply("TimestampConverter$Value", {"target.type": "string", "format": "yyyy"}, records)
    assert values(result) == ["2024", None]
    assert {each.value.schema for each in result.groups} == {connect.STRING.optional()}


def test_without_a_schema_the_type_is_inferred() -> None:
    config = {"field": "t", "target.type": "Timestamp"}
    converted = only(apply("TimestampConverter$Value", config, group(column(None, [{"t": MILLIS}]))))
    assert converted.value.values.type == pa.struct([("t", pa.timestamp("ms"))])
    refused = apply("TimestampConverter$Value", config, group(column(None, [{"t": 1.5}])))
    assert failures(refused) == {
        100: "TimestampConverter does not support class java.lang.Double objects as timestamps"
    }


def test_texts_that_do_not_match_fail() -> None:
    records = group(column(None, [{"t": "2024-02-29 00:00:00"}, {"t": "yesterday"}]))
    config = {"field": "t", "target.type": "unix", "format": FORMAT}
    result = apply("TimestampConverter$Value", config, records)
    assert failures(result) == {101: f"Could not parse timestamp: value (yesterday) does not match pattern ({FORMAT})"}
    assert len(values(result)) == 1


def test_schemas_that_hold_no_time_fail() -> None:
    result = apply("TimestampConverter$Value", {"target.type": "unix"}, group(column(connect.INT32, [1])))
    assert failures(result) == {100: "Schema Schema{INT32} does not correspond to a known timestamp type format"}
    assert result.failures[0].java_class == "org.apache.kafka.connect.errors.ConnectException"


@pytest.mark.parametrize("config", [{"target.type": "string"}, {"target.type": "unix", "format": "bogus"}, {}])
def test_bad_configurations_are_refused(config: dict[str, str]) -> None:
    with pytest.raises(ConfigException):
        plugin("TimestampConverter$Value", config)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyyMMdd", "20240229"),
        ("yy-M-d", "24-2-29"),
        ("EEEE, d MMMM yyyy hh:mm a", "Thursday, 29 February 2024 12:34 PM"),
        ("EEE MMM", "Thu Feb"),
        ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "2024-02-29T12:34:56.789Z"),
        ("'it''s' H k K h", "it's 12 12 0 12"),
        ("D w W u F Y z Z", "60 9 5 4 5 2024 UTC +0000"),
    ],
)
def test_patterns_are_written(pattern: str, text: str) -> None:
    assert SimpleDateFormat(pattern).format(pa.array([MILLIS, None])).to_pylist() == [text, None]


@pytest.mark.parametrize(
    ("pattern", "text", "millis"),
    [
        ("yyyy-MM-dd", "2024-02-29 and more", 19782 * 86_400_000),
        ("yyyy-MM-dd", "2024-2-29", 19782 * 86_400_000),
        ("yyyy-MM-dd", "2024-14-1", 1_738_368_000_000),
        ("d MMM yyyy hh:mm a", "29 feb 2024 01:00 pm", 1_709_211_600_000),
        ("yyyy-MM-dd HH:mm:ssXXX", "2024-02-29 12:34:56+01:00", 1_709_206_496_000),
        ("yyyyMMdd", "2024", None),
        ("HH:mm", "12-34", None),
    ],
)
def test_texts_are_read(pattern: str, text: str, millis: int | None) -> None:
    assert SimpleDateFormat(pattern).parse(pa.array([text])).to_pylist() == [millis]


@pytest.mark.parametrize("pattern", ["yyyy-bb", "'open", "XXXX"])
def test_patterns_that_java_refuses(pattern: str) -> None:
    with pytest.raises(PatternError):
        SimpleDateFormat(pattern)
