"""How pipelines end badly, and go on: one line, an exit code, and nothing lost for the next start."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import NewTopic
from pyspark.sql import SparkSession

from penstock.core.error_table import Retry
from penstock.core.exit_codes import ExitCode
from penstock.pipeline.failure import PipelineFailed
from penstock.testing import Broker
from tests.conftest import RunningBroker, optional_part_missing
from tests.pipeline.pipeline_runs import Pipelines, of_kind

ROWS = "id BIGINT, word STRING"


def copy(pipelines: Pipelines, source: str, sink: str, *, guarantee: str = "exactly_once", more: str = "") -> str:
    return f"""
        name: {pipelines.name("copy")}
        guarantee: {guarantee}
        source: {{topic: {source}, schema: "{ROWS}"}}
        sink: {{topic: {sink}}}
        {more}
    """


def row(number: int) -> dict[str, Any]:
    return {"id": number, "word": f"w{number}"}


def ids(pipelines: Pipelines, topic: str) -> list[int]:
    return sorted(value["id"] for value in pipelines.values(topic))


@pytest.mark.parametrize("guarantee", ["exactly_once", pytest.param("at_least_once", marks=pytest.mark.slow)])
def test_a_bad_row_stops_the_pipeline_before_anything_of_its_batch_is_written(
    pipelines: Pipelines, guarantee: str
) -> None:
    source, sink = pipelines.topic("source", partitions=2), pipelines.topic("sink")
    pipelines.send(source, [row(1), row(2)])
    pipelines.once(copy(pipelines, source, sink, guarantee=guarantee))
    pipelines.send(source, [row(3), "nonsense", row(5)])
    with pytest.raises(PipelineFailed) as failed:
        pipelines.once(copy(pipelines, source, sink, guarantee=guarantee))
    assert failed.value.exit_code == ExitCode.PIPELINE_FAILED
    assert str(failed.value).startswith(
        f"{source} partition 1 offset 1: the value is not a JSON object: 'nonsense'; nothing of its"
    )
    assert ids(pipelines, sink) == [1, 2]
    # The next start goes on where the last good commit was.
    pipelines.once(copy(pipelines, source, sink, guarantee=guarantee, more="on_error: drop"))
    assert ids(pipelines, sink) == [1, 2, 3, 5]


def test_what_is_not_there_is_named(pipelines: Pipelines) -> None:
    source = pipelines.topic("source")
    with pytest.raises(PipelineFailed, match=f"topic '{source}s' does not exist; did you mean '{source}'?") as missing:
        pipelines.once(copy(pipelines, source + "s", pipelines.name("sink")))
    assert missing.value.exit_code == ExitCode.NOT_FOUND
    with pytest.raises(
        PipelineFailed, match=r"transform\[0\].sql: no column is called 'wrd' \(did you mean 'word'\?\)"
    ) as bad:
        pipelines.once(copy(pipelines, source, pipelines.name("sink"), more="transform: SELECT wrd FROM source"))
    assert bad.value.exit_code == ExitCode.INVALID_SQL
    nobody = Pipelines(pipelines.spark, "127.0.0.1:1", pipelines.directory)
    with pytest.raises(PipelineFailed, match="cannot reach a broker at 127") as unreachable:
        nobody.once(copy(pipelines, source, pipelines.name("sink")))
    assert unreachable.value.exit_code == ExitCode.UNREACHABLE


def test_a_checkpoint_of_another_pipeline_is_refused(pipelines: Pipelines) -> None:
    source, other, sink = pipelines.topic("source"), pipelines.topic("other"), pipelines.topic("sink")
    pipelines.send(source, [row(1)])
    pipelines.once(copy(pipelines, source, sink), checkpoint="shared")
    renamed = copy(pipelines, source, sink).replace("name: copy", "name: else")
    for yaml, why in (
        (renamed, f"belongs to the pipeline '{pipelines.name('copy')}'"),
        (copy(pipelines, other, sink), f"was made for source: topic {source}, not for source: topic {other}"),
    ):
        with pytest.raises(PipelineFailed, match=why) as refused:
            pipelines.once(yaml, checkpoint="shared")
        assert refused.value.exit_code == ExitCode.CHECKPOINT_MISMATCH
        assert "--checkpoint" in str(refused.value)


def test_a_table_that_somebody_changed_is_refused_and_nothing_is_lost(pipelines: Pipelines) -> None:
    source = pipelines.topic("source", partitions=1)
    stored = f"""
        name: {pipelines.name("stored")}
        guarantee: exactly_once
        source: {{topic: {source}, schema: "{ROWS}"}}
        sink: {{table: words, url: "sqlite:///words.db"}}
    """
    pipelines.send(source, [row(1)])
    pipelines.once(stored)
    database = sqlite3.connect(pipelines.directory / "words.db")
    database.execute("ALTER TABLE words RENAME COLUMN word TO term")
    pipelines.send(source, [row(2)])
    with pytest.raises(PipelineFailed, match="word") as refused:
        pipelines.once(stored)
    assert refused.value.exit_code == ExitCode.SINK_REFUSED
    database.execute("ALTER TABLE words RENAME COLUMN term TO word")
    pipelines.once(stored)
    assert database.execute("SELECT id, word FROM words ORDER BY id").fetchall() == [(1, "w1"), (2, "w2")]
    database.close()


def test_files_of_another_checkpoint_are_refused(pipelines: Pipelines) -> None:
    source = pipelines.topic("source", partitions=1)
    stored = f"""
        name: {pipelines.name("stored")}
        guarantee: exactly_once
        source: {{topic: {source}, schema: "{ROWS}"}}
        sink: {{files: words}}
    """
    pipelines.send(source, [row(1)])
    pipelines.once(stored)
    # Spark's own sink would take batch 0 of the new checkpoint for the one that it has, and drop it silently.
    for yaml in (stored, stored.replace("exactly_once", "at_least_once")):
        with pytest.raises(PipelineFailed, match="write to another directory") as refused:
            pipelines.once(yaml, checkpoint="anew")
        assert refused.value.exit_code == ExitCode.SINK_REFUSED


def files_pipeline(pipelines: Pipelines, source: str, guarantee: str, sink: str, columns: str = ROWS) -> str:
    return f"""
        name: {pipelines.name("stored")}
        guarantee: {guarantee}
        source: {{topic: {source}, schema: "{columns}"}}
        sink: {{{sink}}}
    """


@pytest.mark.parametrize("guarantee", ["exactly_once", pytest.param("at_least_once", marks=pytest.mark.slow)])
def test_a_changed_schema_of_files_is_refused_and_they_stay_readable(pipelines: Pipelines, guarantee: str) -> None:
    source = pipelines.topic("source", partitions=1)
    directory = pipelines.directory / "words"
    pipelines.send(source, [row(1)])
    pipelines.once(files_pipeline(pipelines, source, guarantee, "files: words"))
    pipelines.send(source, [row(2)])
    more = f"{ROWS}, length INT"
    for sink, columns, why in (
        ("files: words", "id STRING, word STRING", "column 'id' is bigint, and the pipeline's is string"),
        ("files: words", "id BIGINT", "column 'word'"),
        ("files: words", more, "schema_evolution: add_columns"),
        ("files: words, partition_by: [word]", ROWS, "directories are made of no column, and the pipeline's of word"),
        ("files: words, format: json", ROWS, "its files are parquet, and the pipeline writes json"),
    ):
        with pytest.raises(PipelineFailed, match=why) as refused:
            pipelines.once(files_pipeline(pipelines, source, guarantee, sink, columns))
        assert refused.value.exit_code == ExitCode.SINK_REFUSED
        assert "undo the change" in str(refused.value)
    assert [found["id"] for found in pipelines.spark.read.parquet(str(directory)).collect()] == [1]

    evolving = "files: words, schema_evolution: add_columns, options: {compression: gzip}"
    pipelines.once(files_pipeline(pipelines, source, guarantee, evolving, more))
    found = pipelines.spark.read.option("mergeSchema", True).parquet(str(directory)).orderBy("id")
    assert [tuple(each) for each in found.select("id", "word", "length").collect()] == [
        (1, "w1", None),
        (2, "w2", None),
    ]

    other = "at_least_once" if guarantee == "exactly_once" else "exactly_once"
    with pytest.raises(PipelineFailed, match="would hide") as hidden:
        pipelines.once(files_pipeline(pipelines, source, other, evolving, more))
    assert hidden.value.exit_code == ExitCode.SINK_REFUSED


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_a_directory_that_cannot_be_written_is_one_line_and_no_retry(pipelines: Pipelines, guarantee: str) -> None:
    source = pipelines.topic("source", partitions=1)
    pipelines.send(source, [row(1)])
    (pipelines.directory / "file").write_text("not a directory")
    (pipelines.directory / "foreign").mkdir()
    (pipelines.directory / "foreign" / "notes.csv").write_text("1;2")
    not_writable, refused = ExitCode.NOT_WRITABLE, ExitCode.SINK_REFUSED
    for path, code, why in (
        ("file", not_writable, "sink.files: .*/file is a file, and the sink writes a directory; name another path"),
        ("file/below", not_writable, "sink.files: .*/file/below cannot be written: .*; let the user of this pipeline"),
        (
            "/proc/penstock",
            not_writable,
            "sink.files: /proc/penstock cannot be written: .*; let the user of this pipel",
        ),
        ("foreign", refused, r"holds files that this pipeline did not write \(notes.csv\).*write to a new or an empty"),
    ):
        with pytest.raises(PipelineFailed, match=why) as failed:
            pipelines.once(files_pipeline(pipelines, source, guarantee, f"files: {path}"))
        assert failed.value.exit_code == code
        assert failed.value.entry.retry is Retry.NEVER
        assert "checkpoint" not in str(failed.value)


def test_a_directory_that_becomes_a_file_ends_the_pipeline_at_once(pipelines: Pipelines) -> None:
    source = pipelines.topic("source", partitions=1)
    pipelines.send(source, [row(1)])
    directory = pipelines.directory / "words"
    stored = files_pipeline(pipelines, source, "at_least_once", "files: words")
    with pipelines.start(stored) as running:
        running.wait_until(lambda: bool(of_kind(running.events, "progress")))
        directory.rename(pipelines.directory / "moved")
        directory.write_text("not a directory")
        pipelines.send(source, [row(2)])
        failure = running.wait_for_end()
    assert failure is not None
    assert re.search(r"sink.files: .*/words cannot be written: .*; let the user of this pipeline", str(failure))
    assert failure.exit_code == ExitCode.NOT_WRITABLE
    assert not of_kind(running.events, "restarting")


@pytest.mark.parametrize("guarantee", ["exactly_once", pytest.param("at_least_once", marks=pytest.mark.slow)])
def test_a_record_that_the_topic_does_not_take_is_one_line_and_no_retry(pipelines: Pipelines, guarantee: str) -> None:
    source, sink = pipelines.topic("source", partitions=1), pipelines.name("sink")
    small = NewTopic(sink, 1, 1, config={"max.message.bytes": "3000"})
    pipelines.admin.create_topics([small])[sink].result()
    # Together they are larger than the topic takes, one by one they are not.
    pipelines.send(source, [{"id": number, "word": "x" * 1000} for number in range(50)])
    pipelines.once(copy(pipelines, source, sink, guarantee=guarantee))
    assert ids(pipelines, sink) == list(range(50))
    pipelines.send(source, [{"id": 50, "word": "x" * 5000}])
    with pipelines.start(copy(pipelines, source, sink, guarantee=guarantee)) as running:
        failure = running.wait_for_end()
    assert failure is not None
    assert re.search(
        rf"topic '{sink}': a record takes 5\d\d\d bytes, and max.message.bytes of the topic is 3000 \(key NULL, value"
        r" '{\"id\":50,\"word\":\"x{43}\.\.\.'\); raise it with penstock topic alter TOPIC --config"
        " max.message.bytes=BYTES, or filter such rows",
        str(failure),
    )
    assert failure.exit_code == ExitCode.SINK_REFUSED
    assert not of_kind(running.events, "restarting")
    assert ids(pipelines, sink) == list(range(50))


def test_a_sink_that_was_removed_since_the_last_run_is_missed(pipelines: Pipelines) -> None:
    """Otherwise it would be created again, with none of the rows that the checkpoint takes for written."""
    source = pipelines.topic("source", partitions=1)
    sinks = {
        "topic": f"topic: {pipelines.name('gone')}",
        "table": 'table: words, url: "sqlite:///words.db"',
        "files": "files: words",
    }
    stored = {
        kind: files_pipeline(pipelines, source, "at_least_once", sink).replace("name: stored", f"name: {kind}")
        for kind, sink in sinks.items()
    }
    pipelines.send(source, [row(1)])
    for yaml in stored.values():
        pipelines.once(yaml)
    pipelines.admin.delete_topics([pipelines.name("gone")])[pipelines.name("gone")].result()
    (pipelines.directory / "words.db").unlink()
    shutil.rmtree(pipelines.directory / "words")
    for yaml in stored.values():
        with pytest.raises(PipelineFailed, match="does not hold them: it was removed or created again") as refused:
            pipelines.once(yaml)
        assert refused.value.exit_code == ExitCode.CHECKPOINT_MISMATCH
    assert not (pipelines.directory / "words.db").exists()
    pipelines.topic("gone")
    with pytest.raises(PipelineFailed, match="it was removed or created again, or it is another one"):
        pipelines.once(stored["topic"])


def test_a_checkpoint_of_an_earlier_version_adopts_its_sink(pipelines: Pipelines) -> None:
    source = pipelines.topic("source", partitions=1)
    pipelines.send(source, [row(1)])
    here = files_pipeline(pipelines, source, "at_least_once", 'table: words, url: "sqlite:///words.db"')
    pipelines.once(here, checkpoint="kept")
    penstock = pipelines.directory / "kept" / "penstock"
    (penstock / "sink.json").unlink()
    identity = json.loads((penstock / "identity.json").read_text())
    assert identity.pop("sink") == {"table": "words", "mode": "append", "key": "[]"}
    (penstock / "identity.json").write_text(json.dumps(identity))
    pipelines.once(here, checkpoint="kept")
    for changed in (here.replace("words,", "others,"), here.replace("words.db", "others.db")):
        with pytest.raises(PipelineFailed, match="its batches went to") as refused:
            pipelines.once(changed, checkpoint="kept")
        assert refused.value.exit_code == ExitCode.CHECKPOINT_MISMATCH


def test_a_topic_deleted_while_it_is_read_ends_the_pipeline(pipelines: Pipelines) -> None:
    source, sink = pipelines.topic("source", partitions=1), pipelines.topic("sink")
    pipelines.send(source, [row(1)])
    with pipelines.start(copy(pipelines, source, sink)) as running:
        running.wait_until(lambda: bool(of_kind(running.events, "progress")))
        pipelines.admin.delete_topics([source])[source].result()
        failure = running.wait_for_end()
    assert failure is not None
    assert failure.exit_code == ExitCode.SOURCE_LOST
    assert source in str(failure)


def test_a_second_run_of_a_pipeline_takes_over(pipelines: Pipelines) -> None:
    source, sink = pipelines.topic("source", partitions=1), pipelines.topic("sink")
    pipelines.send(source, [row(1)])
    with pipelines.start(copy(pipelines, source, sink)) as first:
        first.wait_until(lambda: bool(of_kind(first.events, "progress")))
        pipelines.once(copy(pipelines, source, sink))
        pipelines.send(source, [row(2)])
        failure = first.wait_for_end()
    assert failure is not None
    assert failure.exit_code == ExitCode.FENCED
    pipelines.once(copy(pipelines, source, sink))
    assert ids(pipelines, sink) == [1, 2]


@pytest.mark.parametrize("guarantee", ["exactly_once", pytest.param("at_most_once", marks=pytest.mark.slow)])
def test_a_broker_that_has_forgotten_the_last_batch_is_not_asked_to_guess(pipelines: Pipelines, guarantee: str) -> None:
    source, sink = pipelines.topic("source", partitions=1), pipelines.topic("sink")
    yaml = copy(pipelines, source, sink, guarantee=guarantee)
    pipelines.send(source, [row(1)])
    pipelines.once(yaml)
    # Killed between the commit in the topic and Spark's own.
    commits = pipelines.directory / ".penstock" / "checkpoints" / pipelines.name("copy") / "commits"
    for left in list(commits.glob("*0*")):
        left.unlink()
    pipelines.once(yaml)
    assert ids(pipelines, sink) == [1]
    for left in list(commits.glob("*0*")):
        left.unlink()
    group = f"{pipelines.name('copy')}.batches"
    pipelines.admin.delete_consumer_groups([group])[group].result()
    with pytest.raises(PipelineFailed, match=r"sink\.topic: batch 0 was begun") as forgotten:
        pipelines.once(yaml)
    assert forgotten.value.exit_code == ExitCode.SINK_REFUSED
    assert group in str(forgotten.value)
    assert ids(pipelines, sink) == [1]
    pipelines.once(yaml.replace(guarantee, "at_least_once"))
    assert ids(pipelines, sink) == [1, 1]
    # With nothing left open, there is nothing to remember.
    pipelines.send(source, [row(2)])
    pipelines.once(yaml)
    assert ids(pipelines, sink) == [1, 1, 2]


def test_a_broker_that_goes_away_is_waited_for(spark: SparkSession, tmp_path: Path) -> None:
    with Broker() as broker:
        pipelines = Pipelines(spark, broker.bootstrap_servers, tmp_path)
        source, sink = pipelines.topic("source", partitions=1), pipelines.topic("sink")
        settings = "options: {kafka.default.api.timeout.ms: 2000, kafka.request.timeout.ms: 1000}"
        yaml = copy(pipelines, source, sink).replace("schema:", f"{settings}, schema:")
        pipelines.send(source, [row(1)])
        with pipelines.start(yaml) as running:
            running.wait_until(lambda: bool(of_kind(running.events, "progress")))
            broker.stop()
            running.wait_until(lambda: bool(of_kind(running.events, "restarting")))
            broker.start()
            pipelines.send(source, [row(2)])
            running.wait_until(lambda: len(of_kind(running.events, "progress")) > 1)
        assert running.failure is None
        assert ids(pipelines, sink) == [1, 2]


def test_a_stop_finishes_the_batch(pipelines: Pipelines) -> None:
    source, sink = pipelines.topic("source", partitions=1), pipelines.topic("sink")
    pipelines.send(source, [row(number) for number in range(50)])
    with pipelines.start(copy(pipelines, source, sink, guarantee="at_least_once")) as running:
        running.wait_until(lambda: bool(of_kind(running.events, "started")))
        pipelines.send(source, [row(number) for number in range(50, 100)])
        time.sleep(1)
    assert running.failure is None
    assert running.events[-1]["event"] == "stopped"
    pipelines.once(copy(pipelines, source, sink, guarantee="at_least_once"))
    # at_least_once may repeat after a crash; a stop is none.
    assert ids(pipelines, sink) == list(range(100))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 200 kB, of which little is left."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        optional_part_missing("a small disk cannot be mounted; run as root, with mount(8)")
    yield disk
    # Lazily: Spark keeps files of a state open for a while after its query.
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def starts_on_a_full_disk(pipelines: Pipelines, disk: Path, kilobytes_left: int) -> bool:
    """Whether the first start had room. If not, it says so, and the second one has room."""
    source, sink = pipelines.topic("source", partitions=1), pipelines.topic("sink")
    checkpoint, filling = disk / pipelines.name("checkpoint"), disk / "filling"
    filling.write_bytes(bytes(1024 * (200 - kilobytes_left)))
    pipelines.send(source, [row(1), row(1), row(2)])
    counted = copy(pipelines, source, sink, more="output_mode: update").replace(
        "sink:", "transform: SELECT id, count(*) AS word FROM source GROUP BY id\n        sink:"
    )
    first = outcome(pipelines, counted, checkpoint)
    left = sorted(str(path.relative_to(checkpoint)) for path in checkpoint.rglob("*") if path.is_file())
    filling.unlink()
    if first is not None:
        assert "no space is left on the disk" in str(first), left
        assert first.exit_code == ExitCode.DISK_FULL
        assert outcome(pipelines, counted, checkpoint) is None, f"with {kilobytes_left} kB left, a start leaves {left}"
    assert sorted(pipelines.values(sink), key=lambda value: value["id"]) == [
        {"id": 1, "word": 2},
        {"id": 2, "word": 1},
    ], left
    shutil.rmtree(checkpoint)
    return first is None


def outcome(pipelines: Pipelines, yaml: str, checkpoint: Path) -> PipelineFailed | None:
    try:
        pipelines.once(yaml, checkpoint=str(checkpoint))
    except PipelineFailed as failure:
        return failure
    return None


@pytest.mark.parametrize("kilobytes_left", [12, *(pytest.param(left, marks=pytest.mark.slow) for left in (4, 20))])
def test_a_full_disk_under_the_checkpoint_is_told_and_goes_on_with_room(
    pipelines: Pipelines, small_disk: Path, kilobytes_left: int
) -> None:
    assert not starts_on_a_full_disk(pipelines, small_disk, kilobytes_left)


@pytest.mark.slow
def test_every_write_of_a_first_batch_may_find_the_disk_full(
    spark: SparkSession, broker_under_test: RunningBroker, small_disk: Path, tmp_path: Path
) -> None:
    """The smallest file takes a page: with a page more each time, each file of the checkpoint is torn once."""
    pages = 0
    while not starts_on_a_full_disk(
        Pipelines(spark, broker_under_test.bootstrap_servers, tmp_path), small_disk, 4 * pages
    ):
        pages += 1
    assert pages > 5, "the files of penstock, Spark's metadata, the plan, the state, the commit"
