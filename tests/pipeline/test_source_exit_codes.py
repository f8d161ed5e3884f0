"""What a source that cannot be read makes of a pipeline: one line with the remedy, and the exit code of docs/cli.md."""

from __future__ import annotations

import json

import pytest

from penstock.core.exit_codes import ExitCode
from penstock.pipeline.failure import PipelineFailed
from penstock.testing.apache_kafka import free_ports
from tests.pipeline.pipeline_runs import Pipelines


def failure(pipelines: Pipelines, **source: object) -> PipelineFailed:
    declared = {
        "name": pipelines.name("copied"),
        "source": source,
        "sink": {"console": True},
    }
    if "table" in source:
        stream = {"topic": pipelines.topic("stream"), "schema": "id INT"}
        declared |= {"sources": {"stream": stream, "other": source}, "transform": "SELECT stream.id FROM stream, other"}
        del declared["source"]
    with pytest.raises(PipelineFailed) as failed:
        pipelines.once(json.dumps(declared))
    assert "\n" not in str(failed.value)
    return failed.value


def test_what_does_not_exist_is_not_found(pipelines: Pipelines) -> None:
    missing = failure(pipelines, topic="nowhere", schema="id INT")
    assert (missing.exit_code, "topic 'nowhere' does not exist" in str(missing)) == (ExitCode.NOT_FOUND, True)

    for schema in ({}, {"schema": "id INT"}):
        for place in ("nowhere", "nowhere/*.json"):
            missing = failure(pipelines, files=place, **schema)
            path = pipelines.directory / place
            assert str(missing) == f"source: {path} does not exist; create it, or correct the path"
            assert missing.exit_code == ExitCode.NOT_FOUND

    missing = failure(pipelines, table="nowhere", url="sqlite:///nowhere.db")
    assert missing.exit_code == ExitCode.NOT_FOUND
    assert str(missing).startswith("sources.other: table nowhere cannot be read: ")
    assert not (pipelines.directory / "nowhere.db").exists()


def test_a_broker_that_does_not_listen_is_unreachable(pipelines: Pipelines) -> None:
    [port] = free_ports(1)
    away = failure(pipelines, topic="orders", schema="id INT", bootstrap_servers=f"127.0.0.1:{port}")
    assert away.exit_code == ExitCode.UNREACHABLE
    assert f"127.0.0.1:{port}" in str(away)


def test_a_file_that_is_not_what_it_should_be_is_named(pipelines: Pipelines) -> None:
    (pipelines.directory / "rows").mkdir()
    (pipelines.directory / "rows" / "a.parquet").write_bytes(b"this is no parquet")
    unreadable = failure(pipelines, files="rows", format="parquet", schema="id INT")
    assert unreadable.entry.condition == "PENSTOCK_FILE_UNREADABLE"
    assert unreadable.exit_code == ExitCode.PIPELINE_FAILED
    assert "rows/a.parquet" in str(unreadable)
