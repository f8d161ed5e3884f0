"""What the sink refuses before a row is written, and how its errors are told apart behind Spark's."""

from __future__ import annotations

import pickle

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.core.errors import BrokerUnreachable
from penstock.core.ids import OffsetAndMetadata
from penstock.pipeline.topics.batch_ledger import LedgerEntry
from penstock.pipeline.topics.errors import BatchInterrupted, Fenced, InvalidOption, TopicSinkError
from penstock.pipeline.topics.handed_over import THROUGH_DRIVER_BYTES_MAX, require_little
from penstock.pipeline.topics.sink_columns import ARRANGED_SCHEMA, input_columns, is_arranged
from penstock.pipeline.topics.sink_options import read_sink_options, require_batches_topic
from penstock.pipeline.topics.task_output import as_failure, require_first_attempt
from penstock.pipeline.topics.writer import batch_writer, stream_writer
from penstock.protocol.error_codes import BrokerError, ErrorCode

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
TEXT, BYTES, INT, LONG = StringType(), BinaryType(), IntegerType(), LongType()


def schema_of(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def headers_of(value: DataType) -> ArrayType:
    return ArrayType(schema_of(key=TEXT, value=value))


def test_defaults_are_those_of_sparks_sink() -> None:
    options = read_sink_options({**SERVERS, "topic": "orders"})
    assert (options.guarantee, options.acks, options.compression) == ("at_least_once", -1, "none")


def test_names_are_read_without_regard_to_case() -> None:
    options = read_sink_options({**SERVERS, "GUARANTEE": "Exactly_Once", "transactionalid": "copy", "batchrows": "10"})
    assert (options.guarantee, options.transactional_id, options.batch_rows) == ("exactly_once", "copy", 10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kafka.bootstrap.servers": " "}, "kafka.bootstrap.servers must be set"),
        ({"guarantee": "often"}, "guarantee: 'often' is none of at_most_once, at_least_once, exactly_once"),
        ({"guarantee": "exactly_once"}, "transactionalId must be set"),
        ({"kafka.transactional.id": "x"}, "set the option transactionalId"),
        ({"kafka.key.serializer": "x"}, "keys are written as bytes"),
        ({"kafka.compression.type": "brotli"}, "kafka.compression.type: 'brotli' is none of"),
        ({"kafka.acks": "2"}, "kafka.acks: '2' is none of"),
        ({"guarantee": "exactly_once", "transactionalId": "x", "kafka.acks": "1"}, "kafka.acks must be all"),
        ({"batchRows": "0"}, "batchRows must be positive"),
        ({"garantee": "exactly_once"}, "garantee: no such option; did you mean guarantee?"),
        ({"kafka.compresion.type": "zstd"}, "did you mean kafka.compression.type?"),
    ],
)
def test_refused_options(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        read_sink_options(SERVERS | options)


def test_options_of_other_layers_pass() -> None:
    read_sink_options({**SERVERS, "checkpointLocation": "x", "path": "y", "kafka.compression.zstd.level": "3"})


def test_secrets_are_not_shown() -> None:
    options = read_sink_options({**SERVERS, "kafka.sasl.password": "swordfish"})
    assert "swordfish" not in repr(options)
    assert options.wire_settings["sasl.password"] == "swordfish"


def test_a_stream_that_remembers_its_batches_needs_a_topic_to_keep_them_with() -> None:
    schema = schema_of(topic=TEXT, value=TEXT)
    options = {**SERVERS, "guarantee": "exactly_once", "transactionalId": "copy"}
    with pytest.raises(InvalidOption, match="batchesTopic"):
        stream_writer(options, schema, False)
    assert require_batches_topic(read_sink_options({**options, "batchesTopic": "orders"})) == "orders"


def test_at_most_once_needs_a_name_in_a_stream() -> None:
    with pytest.raises(InvalidOption, match="transactionalId must be set for guarantee at_most_once"):
        stream_writer({**SERVERS, "topic": "t", "guarantee": "at_most_once"}, schema_of(value=TEXT), False)


def test_overwriting_is_refused_in_batch_queries_only() -> None:
    schema = schema_of(value=TEXT)
    with pytest.raises(InvalidOption, match="Save mode overwrite not allowed"):
        batch_writer({**SERVERS, "topic": "t"}, schema, True)
    stream_writer({**SERVERS, "topic": "t"}, schema, True)


@pytest.mark.parametrize(
    ("schema", "topic", "columns"),
    [
        (schema_of(value=TEXT), "t", ["value"]),
        (
            schema_of(timestamp=TimestampType(), partition=INT, headers=headers_of(BYTES), value=BYTES, key=TEXT),
            "t",
            ["key", "value", "headers", "partition"],
        ),
        (schema_of(topic=TEXT, value=BYTES, offset=LONG), None, ["value", "topic"]),
        (schema_of(topic=TEXT, value=BYTES, offset=LONG), "t", ["value"]),
    ],
)
def test_columns_that_are_written(schema: StructType, topic: str | None, columns: list[str]) -> None:
    assert input_columns(schema, topic) == columns


@pytest.mark.parametrize(
    ("schema", "topic", "message"),
    [
        (schema_of(value=TEXT), None, "topic option required when no 'topic' attribute is present"),
        (schema_of(topic=INT, value=TEXT), None, "topic attribute type must be a string"),
        (schema_of(key=TEXT), "t", "Required attribute 'value' not found"),
        (schema_of(value=INT), "t", "value attribute type must be a string or binary, but it is int"),
        (schema_of(key=DoubleType(), value=TEXT), "t", "key attribute type must be a string or binary"),
        (schema_of(value=TEXT, partition=LONG), "t", "partition attribute type must be an int"),
        (schema_of(value=TEXT, headers=MapType(TEXT, BYTES)), "t", "headers attribute type must be a array<struct<"),
        (schema_of(value=TEXT, headers=headers_of(TEXT)), "t", "headers attribute type must be"),
    ],
)
def test_refused_columns(schema: StructType, topic: str | None, message: str) -> None:
    with pytest.raises(InvalidOption) as refusal:
        input_columns(schema, topic)
    assert message in str(refusal.value)


def test_arranged_rows_are_known_by_their_schema() -> None:
    assert is_arranged(ARRANGED_SCHEMA)
    assert is_arranged(StructType.fromJson(ARRANGED_SCHEMA.jsonValue()))
    assert not is_arranged(schema_of(topic=TEXT, partition=INT, records=INT, chunk=TEXT, writer=INT))
    assert not is_arranged(schema_of(value=TEXT))


def test_a_failure_of_a_task_survives_pickling_with_its_condition() -> None:
    """A task's result is pickled; a BrokerError itself, whose first argument is no text, would not survive that."""
    refused = BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "not allowed")
    for error, condition in (
        (Fenced("over"), "PENSTOCK_SINK_FENCED"),
        (BrokerUnreachable("gone"), "PENSTOCK_BATCH_INTERRUPTED"),
        (refused, "PENSTOCK_ACCESS_DENIED"),
    ):
        carried = pickle.loads(pickle.dumps(as_failure(error)))
        assert (carried.entry.condition, str(error) in str(carried)) == (condition, True)


def test_bounds() -> None:
    require_little(THROUGH_DRIVER_BYTES_MAX)
    with pytest.raises(TopicSinkError, match="handOverDirectory"):
        require_little(THROUGH_DRIVER_BYTES_MAX + 1)
    options = read_sink_options({**SERVERS, "guarantee": "exactly_once", "transactionalId": "copy"})
    require_first_attempt(0, options)
    with pytest.raises(BatchInterrupted, match="started a second time"):
        require_first_attempt(1, options)


def test_a_ledger_entry_is_an_offset_with_metadata() -> None:
    entry = LedgerEntry("run", "query", 41, "attempt")
    offset = entry.to_offset()
    assert offset.offset == 42
    assert LedgerEntry.from_offset(offset, "copy.batches") == entry
    assert LedgerEntry().to_offset().offset == 0
    with pytest.raises(TopicSinkError, match=r"group 'copy.batches' has an offset that is no entry"):
        LedgerEntry.from_offset(OffsetAndMetadata(5, ""), "copy.batches")


def test_a_batch_counts_as_committed_with_all_before_it() -> None:
    entry = LedgerEntry("run", "query", 5)
    assert [entry.holds("query", batch) for batch in (4, 5, 6)] == [True, True, False]
    assert not entry.holds("another query", 5)
    assert not LedgerEntry().holds("query", 0)
