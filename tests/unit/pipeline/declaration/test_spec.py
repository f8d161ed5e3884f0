"""The model of a pipeline: its spellings, what it derives, and what it shows."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from penstock.pipeline.declaration.redaction import redacted_url
from penstock.pipeline.declaration.spec import PipelineSpec
from penstock.pipeline.declaration.transform_spec import PythonStep, SqlStep
from penstock.pipeline.sinks.table.declaration import TableSink
from penstock.pipeline.sources.topic.declaration import TopicSource


def spec(**keys: Any) -> PipelineSpec:
    return PipelineSpec.model_validate({"name": "x", "source": {"topic": "a"}, "sink": {"topic": "b"}, **keys})


@pytest.mark.parametrize(
    ("transform", "steps"),
    [
        ("SELECT 1", [("step_1", "SELECT 1")]),
        (["SELECT 1", {"sql": "SELECT 2"}], [("step_1", "SELECT 1"), ("step_2", "SELECT 2")]),
        ([{"a": "SELECT 1"}, {"name": "b", "sql": "SELECT 2"}], [("a", "SELECT 1"), ("b", "SELECT 2")]),
        ({"python": "m:f"}, [("step_1", "m:f")]),
        ([{"name": "c", "python": "m.n:f", "inputs": ["source"]}], [("c", "m.n:f")]),
        ("-- why\n(SELECT 1)", [("step_1", "-- why\n(SELECT 1)")]),
        (
            "/* why */ with a AS (SELECT 1) SELECT * FROM a",
            [("step_1", "/* why */ with a AS (SELECT 1) SELECT * FROM a")],
        ),
    ],
)
def test_a_transform_has_several_spellings(transform: Any, steps: list[tuple[str, str]]) -> None:
    found = spec(transform=transform)
    assert [
        (found.step_name(index), step.sql if isinstance(step, SqlStep) else step.python)
        for index, step in enumerate(found.transform)
    ] == steps


@pytest.mark.parametrize(
    "statement", ["DROP TABLE a", "INSERT INTO a SELECT 1", "-- SELECT", "SET x=1", "", "selecting"]
)
def test_a_transform_is_a_query(statement: str) -> None:
    with pytest.raises(ValidationError):
        spec(transform=statement)


def test_one_topic_and_several_are_the_same_kind_of_value() -> None:
    assert TopicSource.model_validate({"topic": "a"}).topic == ("a",)
    assert TopicSource.model_validate({"topic": ["a", "b"]}).topic == ("a", "b")


@pytest.mark.parametrize(
    ("source", "columns"),
    [
        ({"topic": "a"}, None),
        ({"topic": "a", "schema": "x INT"}, "x INT"),
        ({"topic": "a", "format": "text"}, "value STRING"),
        ({"topic": "a", "format": "binary"}, "key BINARY, value BINARY"),
        (
            {"topic": "a", "schema": "x INT", "include": ["key", "timestamp"]},
            "x INT, _key STRING, _timestamp TIMESTAMP",
        ),
        ({"files": "in/", "format": "text"}, "value STRING"),
        ({"files": "in/", "format": "parquet"}, None),
        ({"files": "in/", "schema": "x INT"}, "x INT"),
    ],
)
def test_the_columns_of_a_source_are_known_where_its_author_or_its_format_says_them(
    source: dict[str, Any], columns: str | None
) -> None:
    assert spec(source=source).all_sources["source"].columns == columns


def test_the_mode_of_a_table_follows_from_its_key() -> None:
    url = "sqlite:///x.db"
    assert TableSink.model_validate({"table": "t", "url": url}).mode == "append"
    assert TableSink.model_validate({"table": "t", "url": url, "key": "id"}).mode == "upsert"


def test_expectations_of_the_pipeline_are_those_of_its_one_source() -> None:
    source = spec(expect={"positive": "x > 0"}).all_sources["source"]
    assert isinstance(source, TopicSource)
    assert source.expect == {"positive": "x > 0"}


@pytest.mark.parametrize(
    "keys",
    [
        {"sources": {"a": {"topic": "a"}, "c": {"topic": "c"}}, "source": None, "expect": {"x": "y"}},
        {"source": {"topic": "a", "expect": {"x": "y"}}, "expect": {"x": "y"}},
    ],
)
def test_expectations_have_one_place(keys: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        spec(**keys)


def test_a_pipeline_cannot_be_changed() -> None:
    found = spec()
    with pytest.raises(ValidationError):
        found.name = "y"


def test_a_python_step_knows_its_inputs() -> None:
    step = spec(transform=[{"python": "m:f", "inputs": ["source"]}]).transform[0]
    assert isinstance(step, PythonStep)
    assert step.inputs == ("source",)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:///a.db", "sqlite:///a.db"),
        ("postgresql://u@h/d", "postgresql://u@h/d"),
        ("postgresql://u:hunter2@h:5432/d?sslmode=require", "postgresql://u:***@h:5432/d?sslmode=require"),
        ("postgresql://h/d?user=u&password=hunter2", "postgresql://h/d?user=u&password=***"),
        ("postgresql://u:hunter2@h/d?sslpassword=hunter2", "postgresql://u:***@h/d?sslpassword=***"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert redacted_url(url) == shown
