"""Every option is read, and what Spark's own Kafka source refuses is refused with its reason."""

from __future__ import annotations

import logging

import pytest

from penstock.core.ids import TopicPartition
from penstock.pipeline.topics.errors import InvalidOption
from penstock.pipeline.topics.options import SourceOptions, read_batch_options, read_stream_options
from penstock.pipeline.topics.positions import (
    Assign,
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    Earliest,
    Latest,
    Subscribe,
    SubscribePattern,
)

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
ONE_TOPIC = SERVERS | {"subscribe": "orders"}


def stream(**options: str) -> SourceOptions:
    return read_stream_options(ONE_TOPIC | options)


def batch(**options: str) -> SourceOptions:
    return read_batch_options(ONE_TOPIC | options)


def test_defaults_are_those_of_sparks_own_source() -> None:
    options = stream()
    assert options.selection == Subscribe(("orders",))
    assert (options.starting, batch().starting, batch().ending) == (Latest(), Earliest(), Latest())
    assert options.fail_on_data_loss
    assert not options.reads_committed_only
    assert options.max_trigger_delay_ms == 15 * 60 * 1000
    assert (options.offset_attempts, options.offset_retry_interval_ms) == (3, 1000)
    assert options.min_partitions is options.max_records_per_partition is None


def test_names_are_read_without_regard_to_case() -> None:
    options = read_stream_options(
        {"KAFKA.Bootstrap.Servers": "h:1", "SUBSCRIBE": "a, b,,a", "failondataloss": "FALSE", "MINPARTITIONS": "4"}
    )
    assert options.selection == Subscribe(("a", "b"))
    assert not options.fail_on_data_loss
    assert options.min_partitions == 4
    assert options.kafka == {"bootstrap.servers": "h:1"}


def test_the_three_ways_to_select_partitions() -> None:
    assert read_batch_options(SERVERS | {"assign": '{"a":[0,2]}'}).selection == Assign(
        frozenset({TopicPartition("a", 0), TopicPartition("a", 2)})
    )
    pattern = read_batch_options(SERVERS | {"subscribePattern": "orders-.*"}).selection
    assert isinstance(pattern, SubscribePattern)
    assert pattern.pattern.fullmatch("orders-eu")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "one of these options must be set: assign, subscribe, subscribePattern"),
        ({"topic": "a"}, r"to read topic a, set subscribe"),
        ({"subscribe": "a", "subscribePattern": "b"}, "only one of these options can be set"),
        ({"subscribe": " , "}, "no topics to subscribe to"),
        ({"subscribePattern": " "}, "the pattern is empty"),
        ({"subscribePattern": "(a"}, "is not a regular expression"),
        ({"assign": "a"}, "no partitions to assign"),
        ({"assign": '{"a": 1}'}, "expected e.g."),
        ({"assign": '{"a": [true]}'}, "expected e.g."),
        ({"assign": "{}"}, "no partitions to assign"),
        ({"assign": "{a"}, "expected e.g."),
    ],
)
def test_selections_that_select_nothing(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        read_stream_options(SERVERS | options)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("auto.offset.reset", "set startingOffsets to earliest or latest instead"),
        ("key.deserializer", "keys are read as bytes"),
        ("value.deserializer", "values are read as bytes"),
        ("enable.auto.commit", "checkpoint"),
        ("interceptor.classes", "interceptors"),
    ],
)
def test_kafka_options_that_a_query_decides_itself(name: str, reason: str) -> None:
    for read in (read_batch_options, read_stream_options):
        with pytest.raises(InvalidOption, match=f"'{name}' is not supported: .*{reason}"):
            read(ONE_TOPIC | {f"kafka.{name}": "x"})


def test_servers_are_needed() -> None:
    with pytest.raises(InvalidOption, match=r"kafka\.bootstrap\.servers must be set"):
        read_stream_options({"subscribe": "a"})


@pytest.mark.parametrize("name", ["endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    with pytest.raises(InvalidOption, match="not valid in streaming queries"):
        stream(**{name: "latest"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": "latest"}, "starting offset can't be latest"),
        ({"startingOffsets": '{"orders":{"0":-1}}'}, "can't be latest"),
        ({"endingOffsets": "earliest"}, "ending offset can't be earliest"),
        ({"endingOffsets": '{"orders":{"0":-2}}'}, "can't be earliest"),
        (
            {"startingOffsets": '{"orders":{"0":1}}', "endingOffsets": '{"orders":{"1":1}}'},
            "must name the same partitions",
        ),
        ({"startingOffsets": '{"orders":{"0":5}}', "endingOffsets": '{"orders":{"0":4}}'}, "is 5, behind"),
        (
            {
                "startingOffsetsByTimestamp": '{"orders":{"0":5}}',
                "endingOffsetsByTimestamp": '{"orders":{"0":4}}',
            },
            "behind",
        ),
    ],
)
def test_bounds_that_a_batch_cannot_have(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        batch(**options)


def test_a_batch_may_end_at_the_latest_wherever_it_starts() -> None:
    options = batch(startingOffsets='{"orders":{"0":5}}', endingOffsets='{"orders":{"0":-1}}')
    assert options.ending == AtOffsets({TopicPartition("orders", 0): -1})


def test_a_timestamp_for_all_goes_before_timestamps_and_those_before_offsets() -> None:
    given = {
        "startingOffsets": "earliest",
        "startingOffsetsByTimestamp": '{"orders":{"0":7}}',
        "startingTimestamp": "1700000000000",
    }
    assert stream(**given).starting == AtTimestamp(1700000000000)
    del given["startingTimestamp"]
    assert stream(**given).starting == AtTimestamps({TopicPartition("orders", 0): 7})
    del given["startingOffsetsByTimestamp"]
    assert stream(**given).starting == Earliest()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingTimestamp": "yesterday"}, "expected one whole number of milliseconds"),
        ({"startingOffsets": "first"}, "expected e.g."),
        ({"startingOffsets": '{"orders":{"0":-3}}'}, "expected e.g."),
        ({"startingOffsets": '{"orders":{"zero":1}}'}, "expected e.g."),
        ({"startingOffsets": '{"orders":[1]}'}, "expected e.g."),
        ({"startingOffsetsByTimestamp": '{"orders":{"0":-1}}'}, "expected e.g."),
        ({"startingOffsetsByTimestampStrategy": "earliest"}, "neither error nor latest"),
        ({"failOnDataLoss": "yes"}, "neither true nor false"),
        ({"minPartitions": "0"}, "minPartitions must be positive"),
        ({"maxRecordsPerPartition": "0"}, "maxRecordsPerPartition must be positive"),
        ({"maxOffsetsPerTrigger": "many"}, "not a whole number"),
        ({"minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "9"}, "is higher than"),
        ({"maxTriggerDelay": "soon"}, "is not a time"),
        ({"kafka.isolation.level": "serializable"}, "neither read_uncommitted nor read_committed"),
    ],
)
def test_values_that_mean_nothing(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        read_stream_options(ONE_TOPIC | options)


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("15m", 900_000), ("10s", 10_000), ("250ms", 250), ("3", 3), ("1h", 3_600_000)]
)
def test_times_with_units(text: str, milliseconds: int) -> None:
    assert stream(maxTriggerDelay=text).max_trigger_delay_ms == milliseconds


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("startingOffset", "startingOffsets"),
        ("maxOffsetPerTrigger", "maxOffsetsPerTrigger"),
        ("kafka.bootstrap.server", "kafka.bootstrap.servers"),
        ("kafka.sasl.pasword", "kafka.sasl.password"),
    ],
)
def test_a_name_that_is_surely_a_typo(name: str, meant: str) -> None:
    with pytest.raises(InvalidOption, match=f"did you mean {meant}"):
        read_stream_options(ONE_TOPIC | {name: "1"})


@pytest.mark.parametrize(
    "name", ["path", "checkpointLocation", "kafka.session.timeout.ms", "kafka.group.id", "whatever"]
)
def test_other_names_pass(name: str) -> None:
    read_stream_options(ONE_TOPIC | {name: "1"})


def test_streaming_options_are_ignored_in_a_batch_with_a_word(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        batch(maxOffsetsPerTrigger="5")
    assert "maxOffsetsPerTrigger is ignored in batch queries" in caplog.text


def test_secrets_are_in_no_text() -> None:
    options = read_stream_options(ONE_TOPIC | {"kafka.sasl.password": "hunter2"})
    assert options.kafka["sasl.password"] == "hunter2"
    assert "hunter2" not in repr(options)
