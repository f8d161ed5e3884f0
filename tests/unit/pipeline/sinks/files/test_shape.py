"""Which changes of a directory's files readers can live with, and which are refused."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, StructField, StructType

from penstock.pipeline.sinks.files.declaration import FileSink
from penstock.pipeline.sinks.files.shape import FileShape

ID, WORD = StructField("id", IntegerType()), StructField("word", StringType())
SCHEMA = StructType([ID, WORD])
FORMATS = ("parquet", "json", "csv")


def shape(schema: StructType = SCHEMA, **keys: Any) -> FileShape:
    return FileShape.of(FileSink.model_validate({"files": "out", **keys}), schema)


def change(
    format_name: str, schema: StructType, *, before: StructType = SCHEMA, adds_columns: bool = False
) -> str | None:
    return shape(schema, format=format_name).breaks(shape(before, format=format_name), adds_columns=adds_columns)


@pytest.mark.parametrize("format_name", FORMATS)
def test_the_same_columns_fit_also_when_their_nullability_differs(format_name: str) -> None:
    again = StructType([StructField("id", IntegerType(), nullable=False), WORD])
    assert change(format_name, again) is None
    stored = FileShape.from_json(shape(format=format_name).to_json())
    assert stored == shape(format=format_name)


@pytest.mark.parametrize("adds_columns", [False, True])
@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (StructType([StructField("id", StringType()), WORD]), "column 'id' is int, and the pipeline's is string"),
        (StructType([StructField("id", LongType()), WORD]), "column 'id' is int, and the pipeline's is bigint"),
        (StructType([ID]), r"column 'word' \(string\) is not among the pipeline's"),
        (StructType([ID, StructField("WORD", StringType())]), r"'word' .* is not among the pipeline's"),
    ],
    ids=["another type", "a wider type", "a column less", "another case"],
)
def test_what_readers_could_not_read_together_is_named(
    format_name: str, schema: StructType, why: str, adds_columns: bool
) -> None:
    found = change(format_name, schema, adds_columns=adds_columns)
    assert found is not None
    assert re.search(why, found)


@pytest.mark.parametrize("format_name", FORMATS)
def test_columns_are_added_on_request_where_readers_know_them_by_name(format_name: str) -> None:
    more = StructType([ID, WORD, StructField("tags", ArrayType(StringType()))])
    if format_name == "csv":
        for adds_columns in (False, True):
            found = change("csv", more, adds_columns=adds_columns)
            assert found is not None
            assert "csv knows columns by their order only" in found
        return
    refused = change(format_name, more)
    assert refused is not None
    assert "it has no column 'tags' (array<string>); schema_evolution: add_columns adds it" in refused
    assert change(format_name, more, adds_columns=True) is None


@pytest.mark.parametrize(("format_name", "fits"), [("parquet", True), ("json", True), ("csv", False)])
def test_the_order_of_columns_counts_where_they_have_no_names(format_name: str, fits: bool) -> None:
    assert (change(format_name, StructType([WORD, ID])) is None) == fits


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ({"format": "json"}, {"format": "csv"}, "its files are json, and the pipeline writes csv"),
        ({}, {"partition_by": ["word"]}, "made of no column, and the pipeline's of word"),
        ({"partition_by": ["word", "id"]}, {"partition_by": ["id"]}, "made of word, id, and the pipeline's of id"),
        (
            {"format": "csv"},
            {"format": "csv", "options": {"sep": ";"}},
            "the option sep the default, and the pipeline has ;",
        ),
        ({"format": "csv", "options": {"header": True}}, {"format": "csv", "options": {"header": False}}, "header"),
        (
            {"format": "json", "options": {"timestampFormat": "yyyy"}},
            {"format": "json"},
            "the option timestampformat yyyy",
        ),
        ({"format": "csv"}, {"format": "csv", "options": {"compression": "gzip"}}, None),
        ({"options": {"compression": "zstd"}}, {"options": {"parquet.block.size": 1}}, None),
    ],
)
def test_keys_of_the_sink_that_readers_depend_on(before: Any, after: Any, why: str | None) -> None:
    found = shape(**after).breaks(shape(**before), adds_columns=True)
    assert (found is None) == (why is None)
    assert why is None or (found is not None and why in found)


def test_a_marker_of_an_earlier_version_has_no_shape() -> None:
    assert FileShape.from_json({"pipeline": "p", "checkpoint": "c"}) is None
