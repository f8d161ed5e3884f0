from __future__ import annotations

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

from penstock.columns.arrow_rows import FIELDS
from penstock.pipeline.topics.errors import InvalidOption
from penstock.pipeline.topics.row_schema import columns_of, row_schema

ALL = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]


def test_headers_only_where_they_are_asked_for() -> None:
    assert row_schema({}).fieldNames() == ALL
    assert row_schema({"INCLUDEHEADERS": "true"}).fieldNames() == [*ALL, "headers"]


def test_columns_are_chosen_and_ordered() -> None:
    assert row_schema({"columns": "VALUE, headers,timestamptype"}).fieldNames() == ["value", "headers", "timestampType"]


@pytest.mark.parametrize(
    ("columns", "problem"), [("valu", "no such column"), ("key,key", "named twice"), ("", "no such")]
)
def test_columns_that_are_not_there(columns: str, problem: str) -> None:
    with pytest.raises(InvalidOption, match=problem):
        row_schema({"columns": columns})


def test_a_schema_of_ones_own_may_only_choose() -> None:
    assert columns_of(StructType([StructField("offset", LongType())])) == ("offset",)
    with pytest.raises(InvalidOption, match="value string"):
        columns_of(StructType([StructField("value", StringType())]))


def test_spark_and_the_decoder_agree_on_the_types() -> None:
    expected = to_arrow_schema(row_schema({"includeHeaders": "true"}), timezone="UTC")
    assert [expected.field(name) for name in expected.names] == [FIELDS[name] for name in expected.names]
