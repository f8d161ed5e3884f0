from __future__ import annotations

from pathlib import Path

from penstock.pipeline.declaration.locations import absolute_path
from penstock.pipeline.declaration.spec import PipelineSpec
from penstock.pipeline.engine.packing import can_be_hosted, packed
from penstock.pipeline.sinks.files.declaration import FileSink
from penstock.pipeline.sinks.table.databases import dialect_of
from penstock.pipeline.sources.files.declaration import FileSource
from penstock.pipeline.sources.table.declaration import TableSource

HERE = Path("/somewhere")
SPEC = PipelineSpec.model_validate(
    {
        "name": "mixed",
        "sources": {
            "incoming": {"files": "in", "schema": "id BIGINT"},
            "names": {"table": "names", "url": "sqlite:///names.db"},
        },
        "transform": "SELECT * FROM incoming",
        "sink": {"files": "hdfs://cluster/out"},
    }
)


def test_relative_paths_mean_the_directory_of_the_command() -> None:
    spec = SPEC.located(HERE)
    incoming, names = spec.all_sources["incoming"], spec.all_sources["names"]
    assert isinstance(incoming, FileSource)
    assert incoming.files == "/somewhere/in"
    assert isinstance(names, TableSource)
    assert names.url == "sqlite:////somewhere/names.db"
    assert isinstance(spec.sink, FileSink)
    assert spec.sink.files == "hdfs://cluster/out"


def test_absolute_places_stay() -> None:
    assert absolute_path("/a/b", HERE) == "/a/b"
    assert absolute_path("s3a://bucket/a", HERE) == "s3a://bucket/a"
    for url in ("sqlite:////a/b.db", "postgresql://host/db"):
        assert dialect_of(url).located(url, HERE) == url


def test_the_command_says_where_the_checkpoint_is_before_the_pipeline_does() -> None:
    assert SPEC.checkpoint_location(HERE, None) == "/somewhere/.penstock/checkpoints/mixed"
    own = SPEC.model_copy(update={"checkpoint": "own"})
    assert own.checkpoint_location(HERE, None) == "/somewhere/own"
    assert own.checkpoint_location(HERE, "given") == "/somewhere/given"


def test_a_pipeline_travels_to_an_engine_and_back() -> None:
    assert can_be_hosted(SPEC)
    assert PipelineSpec.model_validate(packed(SPEC)) == SPEC
    with_function = PipelineSpec.model_validate(
        {"name": "f", "source": {"topic": "t"}, "transform": {"python": "m:f"}, "sink": {"console": True}}
    )
    assert not can_be_hosted(with_function)
