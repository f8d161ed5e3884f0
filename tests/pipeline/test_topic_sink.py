"""`df.write` and `df.writeStream` with format penstock, on a real session and a broker (--broker chooses whose)."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from penstock.client.partitioners import Hash
from penstock.pipeline.spark.session import UnsupportedSaveMode
from penstock.pipeline.topics.row_encoding import repartition_by_target
from tests.conftest import RunningBroker
from tests.pipeline.topic_contents import Found, contents
from tests.pipeline.topic_feed import TopicFeed

GUARANTEES = ("at_most_once", "at_least_once", "exactly_once")
PARTITIONS = 3


@pytest.fixture(scope="module")
def feed(broker_under_test: RunningBroker) -> TopicFeed:
    return TopicFeed(broker_under_test.bootstrap_servers)


def sink_options(feed: TopicFeed, topic: str | None, guarantee: str = "at_least_once", **more: str) -> dict[str, str]:
    named = {} if topic is None else {"topic": topic}
    return {
        "kafka.bootstrap.servers": feed.bootstrap_servers,
        "guarantee": guarantee,
        "transactionalId": f"tests-{uuid.uuid4().hex}",
        **named,
        **more,
    }


def save(frame: DataFrame, options: dict[str, str]) -> None:
    frame.write.format("penstock").options(**options).mode("append").save()


def stream_of(spark: SparkSession, feed: TopicFeed, topic: str, **options: str) -> DataFrame:
    reader = spark.readStream.format("penstock").option("kafka.bootstrap.servers", feed.bootstrap_servers)
    return reader.options(subscribe=topic, startingOffsets="earliest", **options).load()


def run_stream(frame: DataFrame, options: dict[str, str], checkpoint: Path) -> None:
    writer = frame.writeStream.format("penstock").options(**options).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()


def values(feed: TopicFeed, topic: str) -> Counter[bytes | None]:
    return Counter(record.value for record in contents(feed.bootstrap_servers, topic))


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("is_arranged", [False, True])
def test_rows_of_a_batch_query_arrive(spark: SparkSession, feed: TopicFeed, guarantee: str, is_arranged: bool) -> None:
    """Keys, values and headers with nulls, in the partitions that Java's producer would choose."""
    topic = feed.create(partitions=PARTITIONS)
    options = sink_options(feed, topic, guarantee)
    frame = spark.range(1000).selectExpr(
        "if(id % 5 = 0, null, cast(id as string)) as key",
        "if(id % 7 = 0, null, encode(concat('value ', id), 'utf-8')) as value",
        "if(id % 2 = 0, null, array(struct('a' as key, encode(cast(id as string), 'utf-8') as value),"
        " struct('b' as key, cast(null as binary) as value))) as headers",
        "id as left_alone",
        "timestamp_seconds(id) as timestamp",
    )
    save(repartition_by_target(frame, options) if is_arranged else frame, options)
    found = contents(feed.bootstrap_servers, topic)
    expected = Counter(
        (
            None if number % 5 == 0 else b"%d" % number,
            None if number % 7 == 0 else b"value %d" % number,
            () if number % 2 == 0 else (("a", b"%d" % number), ("b", None)),
        )
        for number in range(1000)
    )
    assert Counter((record.key, record.value, record.headers) for record in found) == expected
    choose = Hash()
    with_key = [record for record in found if record.key is not None]
    assert [record.partition for record in with_key] == [choose(record.key, None, PARTITIONS) for record in with_key]


def test_a_row_may_name_its_partition_and_its_topic(spark: SparkSession, feed: TopicFeed) -> None:
    first, second = feed.create(partitions=PARTITIONS), feed.create(partitions=PARTITIONS)
    frame = spark.range(300).selectExpr(
        f"if(id % 2 = 0, '{first}', '{second}') as topic",
        "cast(if(id % 5 = 0, null, id % 3) as int) as partition",
        "cast(id as string) as value",
    )
    save(frame, sink_options(feed, None))
    for remainder, topic in enumerate((first, second)):
        found = contents(feed.bootstrap_servers, topic)
        assert Counter(int(record.value or b"") for record in found) == Counter(range(remainder, 300, 2))
        assert all(record.partition == int(record.value or b"") % 3 for record in found if int(record.value or b"") % 5)
    third = feed.create()
    save(frame.drop("partition"), sink_options(feed, third))
    assert sum(values(feed, third).values()) == 300, "the option overrides the column"


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_compression(spark: SparkSession, feed: TopicFeed, compression: str) -> None:
    topic = feed.create(partitions=PARTITIONS)
    options = sink_options(feed, topic, "exactly_once", **{"kafka.compression.type": compression})
    save(
        repartition_by_target(spark.range(2000).selectExpr("repeat(cast(id as string), 20) as value"), options), options
    )
    assert values(feed, topic) == Counter(b"%d" % number * 20 for number in range(2000))


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("is_arranged", [False, True])
def test_a_stream_arrives_once_when_nothing_fails(
    spark: SparkSession, feed: TopicFeed, tmp_path: Path, guarantee: str, is_arranged: bool
) -> None:
    source, target = feed.create(partitions=2), feed.create(partitions=PARTITIONS)
    feed.numbers(source, range(1000), partitions=2)
    options = sink_options(feed, target, guarantee)
    rows = stream_of(spark, feed, source, maxOffsetsPerTrigger="400", columns="key,value")
    written = repartition_by_target(rows, options) if is_arranged else rows
    run_stream(written, options, tmp_path)
    assert values(feed, target) == Counter(b"%d" % number for number in range(1000))
    feed.numbers(source, range(1000, 1500), partitions=2)
    run_stream(written, options, tmp_path)
    assert values(feed, target) == Counter(b"%d" % number for number in range(1500))


def test_large_batches_are_handed_over_in_files(spark: SparkSession, feed: TopicFeed, tmp_path: Path) -> None:
    source, target = feed.create(partitions=2), feed.create(partitions=PARTITIONS)
    feed.numbers(source, range(20_000), partitions=2)
    shared = tmp_path / "shared"
    options = sink_options(feed, target, "exactly_once", handOverDirectory=str(shared))
    number = f.col("value").cast("string")
    rows = stream_of(spark, feed, source, columns="value").select(f.rpad(number, 1000, ".").alias("value"))
    run_stream(rows, options, tmp_path / "checkpoint")
    assert values(feed, target) == Counter(
        b"%d" % number + b"." * (1000 - len(str(number))) for number in range(20_000)
    )
    assert [path for path in shared.rglob("*") if path.is_file()] == []
    assert shared.exists(), "files were made"


def test_one_transaction_holds_several_topics(spark: SparkSession, feed: TopicFeed, tmp_path: Path) -> None:
    source, good, dead = feed.create(), feed.create(partitions=PARTITIONS), feed.create()
    feed.numbers(source, range(600))
    number = f.col("value").cast("string").cast("int")
    rows = stream_of(spark, feed, source, maxOffsetsPerTrigger="200", columns="value").select(
        "value", f.when(number % 10 == 0, dead).otherwise(good).alias("topic")
    )
    options = sink_options(feed, None, "exactly_once", batchesTopic=good)
    run_stream(repartition_by_target(rows, options), options, tmp_path)
    assert values(feed, dead) == Counter(b"%d" % n for n in range(0, 600, 10))
    assert values(feed, good) == Counter(b"%d" % n for n in range(600) if n % 10)


@pytest.mark.parametrize("is_arranged", [False, True])
def test_new_partitions_are_written_to_while_a_query_runs(
    spark: SparkSession, feed: TopicFeed, tmp_path: Path, is_arranged: bool
) -> None:
    source, target = feed.create(), feed.create(partitions=1)
    options = sink_options(feed, target, "exactly_once")
    rows = stream_of(spark, feed, source, columns="value").select("value", f.col("value").alias("key"))
    written = repartition_by_target(rows, options) if is_arranged else rows
    writer = written.writeStream.format("penstock").options(**options).option("checkpointLocation", str(tmp_path))
    query = writer.start()
    try:
        feed.numbers(source, range(100))
        query.processAllAvailable()
        feed.add_partitions(target, 4)
        # The number of partitions is asked for once a second.
        for sent in range(100, 2000, 100):
            feed.numbers(source, range(sent, sent + 100))
            query.processAllAvailable()
            found = contents(feed.bootstrap_servers, target)
            later = [record for record in found if int(record.value or b"") >= sent]
            if {record.partition for record in later} == {0, 1, 2, 3}:
                break
    finally:
        query.stop()
    assert Counter(record.value for record in found) == Counter(b"%d" % number for number in range(sent + 100))
    assert {record.partition for record in later} == {0, 1, 2, 3}
    assert _partitions(later) == [Hash()(record.key, None, 4) for record in later]


def _partitions(found: list[Found]) -> list[int]:
    return [record.partition for record in found]


@pytest.mark.parametrize("is_arranged", [False, True])
def test_a_task_that_fails_before_the_sink_is_tried_again_and_doubles_nothing(
    spark: SparkSession, feed: TopicFeed, tmp_path: Path, is_arranged: bool
) -> None:
    topic = feed.create(partitions=PARTITIONS)
    options = sink_options(feed, topic, "exactly_once", batchRows="10")
    mark = str(tmp_path / "failed")

    def fail_once(batches: Iterator[Any]) -> Iterator[Any]:
        from pathlib import Path

        yield from batches
        if not Path(mark).exists():
            Path(mark).touch()
            raise RuntimeError("the first attempt fails when it has passed on all its rows")

    rows = spark.range(1000).selectExpr("cast(id as string) as value").mapInArrow(fail_once, "value string")
    save(repartition_by_target(rows, options) if is_arranged else rows, options)
    assert Path(mark).exists()
    assert values(feed, topic) == Counter(b"%d" % number for number in range(1000))


def test_a_value_that_is_larger_than_a_batch_should_be(spark: SparkSession, feed: TopicFeed) -> None:
    topic = feed.create(config={"max.message.bytes": str(8 * 1024 * 1024)})
    options = sink_options(feed, topic, "exactly_once")
    save(
        repartition_by_target(spark.range(3).selectExpr("repeat(cast(id as string), 4000000) as value"), options),
        options,
    )
    assert values(feed, topic) == Counter(b"%d" % number * 4_000_000 for number in range(3))


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (["cast(id as string) as value"], {"topic": None}, "topic option required when no 'topic' attribute"),
        (["cast(id as string) as key"], {}, "Required attribute 'value' not found"),
        (["id as value"], {}, "value attribute type must be a string or binary"),
        (["'x' as value", "id as partition"], {}, "partition attribute type must be an int"),
        (["'x' as value", "cast(null as string) as topic"], {"topic": None}, "null topic present in the data"),
        (["'x' as value", "9 as partition"], {}, "the topic's partitions are 0 to 0"),
        (["'x' as value"], {"guarantee": "exactly_once", "transactionalId": ""}, "transactionalId must be set"),
        (["'x' as value"], {"guarantee": "twice"}, "guarantee: 'twice' is none of"),
        (["'x' as value"], {"kafka.value.serializer": "x"}, "serialize them with DataFrame operations"),
    ],
)
def test_a_mistake_is_told_in_a_line(
    spark: SparkSession, feed: TopicFeed, columns: list[str], options: dict[str, str | None], message: str
) -> None:
    given: dict[str, str | None] = {**sink_options(feed, feed.create()), **options}
    with pytest.raises(Exception, match=message):
        save(spark.range(3).selectExpr(*columns), {name: text for name, text in given.items() if text is not None})


def test_save_modes_are_those_of_sparks_kafka_sink(spark: SparkSession, feed: TopicFeed, tmp_path: Path) -> None:
    """Which takes append and its default, errorifexists, for the same."""
    frame = spark.range(1).selectExpr("cast(id as string) as value")
    topic = feed.create()
    options = sink_options(feed, topic)
    frame.write.format("penstock").options(**options).save()
    frame.write.options(**options).save(format="penstock")
    frame.write.format("penstock").mode("errorifexists").options(**options).save()
    frame.write.mode("error").format("penstock").save(**options)
    frame.write.format("penstock").options(**options).save(mode="append")
    assert values(feed, topic) == Counter({b"0": 5})
    for mode in ("overwrite", "ignore"):
        with pytest.raises(UnsupportedSaveMode, match=f"Save mode {mode} not allowed for topics.*use append, or") as no:
            frame.write.format("penstock").options(**options).mode(mode).save()
        assert "\n" not in str(no.value)
    # Other data sources keep Spark's meaning.
    frame.write.format("json").save(str(tmp_path / "rows"))
    with pytest.raises(AnalysisException, match="PATH_ALREADY_EXISTS"):
        frame.write.format("json").save(str(tmp_path / "rows"))


def test_an_arranged_frame_that_was_shuffled_again_is_refused(spark: SparkSession, feed: TopicFeed) -> None:
    """Two tasks would then write to one partition. The broker may be the one that notices, by their sequences."""
    topic = feed.create()
    options = sink_options(feed, topic, "exactly_once", batchRows="10")
    frame = repartition_by_target(spark.range(1000).selectExpr("cast(id as string) as value"), options).repartition(2)
    with pytest.raises(Exception, match=r"two tasks have written to one partition|OUT_OF_ORDER|out of order"):
        save(frame, options)
    assert values(feed, topic) == Counter()


@pytest.mark.parametrize("is_arranged", [False, True])
def test_what_a_broker_refuses_is_told_as_it_is(spark: SparkSession, feed: TopicFeed, is_arranged: bool) -> None:
    """And not hidden behind the complaint of a second attempt at the task."""
    topic = feed.create(config={"cleanup.policy": "compact"})
    options = sink_options(feed, topic, "exactly_once")
    frame = spark.range(1).selectExpr("'without a key' as value")
    with pytest.raises(Exception, match="INVALID_RECORD"):
        save(repartition_by_target(frame, options) if is_arranged else frame, options)
    assert values(feed, topic) == Counter()


def test_a_record_that_is_too_large_is_told_with_its_size_the_limit_and_the_remedy(
    spark: SparkSession, feed: TopicFeed
) -> None:
    topic = feed.create(config={"max.message.bytes": "1000"})
    frame = spark.range(1).selectExpr("repeat(uuid(), 1000) as value")
    limit = rf"topic '{topic}': a record takes 36\d\d\d bytes, and max.message.bytes of the topic is 1000"
    expected = rf"{limit} \(key NULL, value '[0-9a-f-]{{60}}\.\.\.'\); raise it"
    with pytest.raises(Exception, match=expected):
        save(frame, sink_options(feed, topic))
    assert values(feed, topic) == Counter()
