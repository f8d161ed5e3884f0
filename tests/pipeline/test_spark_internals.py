"""Each assumption about Spark's private parts, one by one: what fails here has to change in spark/internals.py and
spark/catalyst.py only."""

from __future__ import annotations

import ast
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.errors import AnalysisException, ParseException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceWriter, WriterCommitMessage
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

import penstock
from penstock.pipeline.spark import catalyst, internals

PRIVATE = {
    "_jvm",
    "_jdf",
    "_jc",
    "_jsq",
    "_jsparkSession",
    "_jsc",
    "_gateway",
    "_accumulatorServer",
    "_ensure_initialized",
    "java_exception",
}


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    return spark.newSession()


@pytest.fixture
def numbers(session: SparkSession, tmp_path: Path) -> DataFrame:
    """A stream over a directory of text files."""
    source = tmp_path / "numbers"
    source.mkdir()
    (source / "first.txt").write_text("1\n2\n3\n")
    return session.readStream.text(str(source))


def started(frame: DataFrame, tmp_path: Path, **trigger: Any) -> StreamingQuery:
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    return writer.trigger(**trigger).start()


def test_no_other_module_touches_private_parts_of_spark() -> None:
    own = {Path(internals.__file__), Path(catalyst.__file__)}
    for file in Path(penstock.__file__).parent.rglob("*.py"):
        if file in own:
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            where = f"{file}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Attribute):
                assert node.attr not in PRIVATE, where
            elif isinstance(node, ast.ImportFrom):
                assert (node.module or "").partition(".")[0] != "py4j", where
            elif isinstance(node, ast.Import):
                assert not any(name.name.partition(".")[0] == "py4j" for name in node.names), where


def test_sparks_own_objects_are_used_by_two_modules() -> None:
    users = {
        file.name
        for file in Path(penstock.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom | ast.Import)
        and any("pipeline.spark.catalyst" in f"{getattr(node, 'module', '')}.{name.name}" for name in node.names)
    }
    assert users == {"internals.py", "row_expressions.py"}


class Discarded(DataSourceWriter):
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


class OnlyHere(DataSource):
    @classmethod
    def name(cls) -> str:
        return "only_here"

    def writer(self, schema: StructType, overwrite: bool) -> Discarded:
        return Discarded()


def test_spark_looks_for_the_data_source_of_a_writer_in_the_active_session(session: SparkSession) -> None:
    session.dataSource.register(OnlyHere)
    rows = session.range(3).write.format("only_here").mode("append")
    internals.activate(session.newSession())
    with pytest.raises(Exception, match="DATA_SOURCE_NOT_FOUND"):
        rows.save()
    internals.activate(session)
    rows.save()


def test_local_files_get_no_checksum_beside_them(session: SparkSession, tmp_path: Path) -> None:
    internals.HadoopDirectory(session, str(tmp_path)).write_text("plain/file", "content")
    assert [path.name for path in (tmp_path / "plain").iterdir()] == ["file"]


@pytest.mark.parametrize("sql", ["SELECT 1", "WITH a AS (SELECT 1 AS x) SELECT x FROM a", "VALUES (1)"])
def test_a_query_changes_nothing(session: SparkSession, sql: str) -> None:
    assert internals.is_query(session, sql)


@pytest.mark.parametrize(
    "sql",
    ["DROP TABLE x", "INSERT INTO x SELECT 1", "CREATE TABLE x (a INT)", "SET a = b", "CREATE VIEW v AS SELECT 1"],
)
def test_a_statement_changes_something(session: SparkSession, sql: str) -> None:
    assert not internals.is_query(session, sql)


def test_pyspark_keeps_its_jvm_in_attributes_that_can_be_forgotten(session: SparkSession) -> None:
    from pyspark import SparkContext

    assert SparkContext._active_spark_context is session.sparkContext
    assert SparkSession._instantiatedSession is not None
    assert SparkContext._gateway is not None
    assert SparkContext._jvm is not None


def test_a_mistake_is_found_by_parsing(session: SparkSession) -> None:
    with pytest.raises(ParseException, match=r"line 1, pos \d+"):
        internals.is_query(session, "SELECT 1 FORM x y")


def test_a_simple_query_is_taken_apart(session: SparkSession) -> None:
    found = internals.simple_query(session, "SELECT *, a + 1 AS b, c FROM `src` WHERE a > 2")
    assert found == internals.SimpleQuery("src", [None, "(a + 1)", "c"], "(a > 2)")
    assert internals.simple_query(session, "SELECT a FROM src ORDER BY a") is None
    assert internals.simple_query(session, "SELECT a FROM (SELECT 1 AS a)") is None


def test_operators_of_a_plan_have_names(session: SparkSession) -> None:
    rows = session.range(3)
    assert internals.operators(rows.where("id > 1").selectExpr("id")) == ["Project", "Filter"]
    assert internals.operators(rows.groupBy("id").count()) == ["Aggregate"]
    assert internals.operators(rows.union(rows)) is None


def test_random_expressions_are_recognised(session: SparkSession) -> None:
    assert internals.is_deterministic(session.range(1), "id > 1")
    assert not internals.is_deterministic(session.range(1), "rand() > 0.5")


def test_an_output_mode_is_checked_before_a_query_starts(numbers: DataFrame) -> None:
    counted = numbers.groupBy("value").count()
    internals.require_output_mode(counted, "update")
    internals.require_output_mode(counted, "complete")
    with pytest.raises(AnalysisException, match="watermark"):
        internals.require_output_mode(counted, "append")


def test_streams_are_named_in_the_order_of_the_plan(session: SparkSession, tmp_path: Path) -> None:
    def topic(option: str, value: str) -> DataFrame:
        reader = session.readStream.format("penstock").option("kafka.bootstrap.servers", "127.0.0.1:1")
        return reader.option(option, value).load().select("value")

    internals.activate(session)
    files = session.readStream.schema("value BINARY").parquet(str(tmp_path))
    frame = (
        topic("subscribe", "b").union(files).union(topic("subscribePattern", "a.*")).union(session.sql("SELECT X''"))
    )
    assert internals.streams(frame) == ["b", str(tmp_path), "a.*"]


def test_reports_of_batches_are_fetched_once(numbers: DataFrame, tmp_path: Path) -> None:
    query = started(numbers, tmp_path, availableNow=True)
    query.awaitTermination()
    [report] = [found for found in internals.new_progress(query, -1) if found.is_executed]
    assert (report.batch_id, report.input_rows, report.watermark) == (0, 3, None)
    assert report.duration_ms > 0
    assert len(report.offsets) == 1
    assert internals.new_progress(query, report.batch_id) == []


def test_observed_metrics_and_watermarks_are_in_the_reports(numbers: DataFrame, tmp_path: Path) -> None:
    from pyspark.sql import functions as f

    timed = numbers.select(f.col("value"), f.current_timestamp().alias("at")).withWatermark("at", "1 minute")
    query = started(timed.observe("mine", f.count(f.lit(1)).alias("rows")), tmp_path, availableNow=True)
    query.awaitTermination()
    report = next(found for found in internals.new_progress(query, -1) if found.is_executed)
    assert report.metrics["mine"] == {"rows": 3}
    assert report.watermark is not None


def test_a_wait_takes_fractions_of_a_second(numbers: DataFrame, tmp_path: Path) -> None:
    query = started(numbers, tmp_path, processingTime="1 hour")
    try:
        begun = time.monotonic()
        assert not internals.await_termination(query, 0.05)
        assert time.monotonic() - begun < 1
    finally:
        query.stop()
    assert internals.await_termination(query, 5)


def test_a_failed_query_raises_while_it_is_waited_for(numbers: DataFrame, tmp_path: Path) -> None:
    query = started(numbers.selectExpr("CAST(value AS INT) / 0 AS x"), tmp_path, availableNow=True)
    with pytest.raises(StreamingQueryException) as failed:
        internals.await_termination(query, 60)
    assert any("DIVIDE_BY_ZERO" in message for message in internals.java_messages(failed.value))
    assert internals.java_messages(ValueError()) == []


def test_a_query_says_that_it_is_between_batches(numbers: DataFrame, tmp_path: Path) -> None:
    query = started(numbers, tmp_path, processingTime="1 hour")
    try:
        deadline = time.monotonic() + 30
        while not (internals.new_progress(query, -1) and internals.is_between_batches(query)):
            assert time.monotonic() < deadline, query.status
            time.sleep(0.01)
    finally:
        query.stop()


def test_a_query_says_that_a_batch_runs(numbers: DataFrame, tmp_path: Path) -> None:
    release = tmp_path / "release"

    def waits(batches: Iterator[Any]) -> Iterator[Any]:
        import time

        while not release.exists():
            time.sleep(0.01)
        yield from batches

    query = started(numbers.mapInArrow(waits, "value STRING"), tmp_path, availableNow=True)
    try:
        deadline = time.monotonic() + 60
        while internals.is_between_batches(query):
            assert time.monotonic() < deadline, query.status
            time.sleep(0.01)
        release.touch()
        while not internals.await_termination(query, 0.02):
            assert time.monotonic() < deadline, query.status
    finally:
        release.touch()
        query.stop()


def test_a_query_says_how_many_of_its_tasks_are_done(numbers: DataFrame, tmp_path: Path) -> None:
    release = tmp_path / "release"

    def waits(batches: Iterator[Any]) -> Iterator[Any]:
        import time

        while not release.exists():
            time.sleep(0.01)
        yield from batches

    query = started(numbers.repartition(3).mapInArrow(waits, "value STRING"), tmp_path, availableNow=True)
    try:
        deadline = time.monotonic() + 60
        found = None
        while found is None or not found.active:
            assert time.monotonic() < deadline, query.status
            found = internals.running_tasks(query)
        assert found.tasks > found.done
        assert found.has_executors
        release.touch()
        while internals.running_tasks(query) is not None:
            assert time.monotonic() < deadline, query.status
    finally:
        release.touch()
        query.stop()


def test_a_task_knows_its_batch(numbers: DataFrame, tmp_path: Path) -> None:
    def batch_of(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        context = TaskContext.get()
        assert context is not None
        found = internals.streaming_batch(context)
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"batch": [str(found)]})

    seen: list[str] = []

    def collect(rows: DataFrame, batch_id: int) -> None:
        seen.extend(f"{row['batch']} {batch_id}" for row in rows.mapInArrow(batch_of, "batch STRING").collect())

    writer = numbers.writeStream.foreachBatch(collect).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    assert set(seen) == {f"('{query.id}', 0) 0"}


def test_a_directory_is_read_and_written_as_spark_does(session: SparkSession, tmp_path: Path) -> None:
    directory = internals.HadoopDirectory(session, str(tmp_path / "new"))
    assert directory.read_text("a/file") is None
    assert directory.list_names("a") == []
    for text in ("first", "second, with an é"):
        directory.write_text("a/file", text)
        assert directory.read_text("a/file") == text
    assert directory.list_names("a") == ["file"]
    assert directory.exists("a/file")
    (tmp_path / "blocked").write_text("")
    with pytest.raises(internals.FileSystemFailure, match="blocked"):
        internals.HadoopDirectory(session, str(tmp_path / "blocked")).write_text("a/file", "text")


@pytest.mark.parametrize("format_name", ["parquet", "json", "csv"])
def test_the_file_sink_writes_a_batch_once(session: SparkSession, tmp_path: Path, format_name: str) -> None:
    path = tmp_path / "out"
    write = internals.file_stream_writer(session, format_name, str(path), ["part"], {})
    rows = session.createDataFrame([(1, "a"), (2, "b")], "id INT, part STRING")
    for batch in (0, 0, 1):
        write(rows, batch)
    assert len((path / internals.MANIFEST / "0").read_text().splitlines()) == 3  # its version and two files
    found = session.read.schema("id INT, part STRING").format(format_name).load(str(path))
    assert sorted(row["id"] for row in found.collect()) == [1, 1, 2, 2]
    assert internals.HadoopDirectory(session, str(path)).list_names(internals.MANIFEST) != []
