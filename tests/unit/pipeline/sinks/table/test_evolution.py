"""Columns that are added to a table on request, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql.types import DataType, DoubleType, LongType, StringType, StructField, StructType, TimestampType

from penstock.pipeline.sinks.table.connections import in_driver
from penstock.pipeline.sinks.table.errors import TableRefused
from penstock.pipeline.sinks.table.preparation import existing_types, prepare
from penstock.pipeline.sinks.table.target import TableTarget
from tests.databases import DATABASES


def schema(**types: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])


BEFORE = schema(id=LongType(), word=StringType())
MORE: dict[str, DataType] = {"price": DoubleType(), "at": TimestampType(), "document": StringType()}
NewTarget = Callable[..., TableTarget]


@pytest.fixture(params=DATABASES)
def new_target(request: pytest.FixtureRequest, urls: Callable[[str], str]) -> NewTarget:
    name = f"t{uuid4().hex[:10]}"

    def create(**settings: Any) -> TableTarget:
        given = {"url": urls(request.param), "table": name, "mode": "append", "pipeline": name, "run": "r"}
        return TableTarget(**{**given, **settings})

    return create


def after() -> StructType:
    return StructType([*BEFORE.fields, *schema(**MORE).fields])


def test_a_new_column_is_refused_and_the_remedy_is_named(new_target: NewTarget) -> None:
    prepare(new_target(), BEFORE)
    with pytest.raises(TableRefused, match=r"has no column 'price'; ALTER TABLE .*schema_evolution: add_columns"):
        prepare(new_target(), after())
    assert set(existing_types(new_target())) == {"id", "word"}


def test_new_columns_are_added_and_old_rows_have_nulls_there(new_target: NewTarget) -> None:
    target = new_target(mode="upsert", key=("id",), adds_columns=True, json_columns=("document",))
    prepare(target, BEFORE)
    with in_driver(target) as database:
        database.execute(f"INSERT INTO {target.table} (id, word) VALUES (1, 'a')")
    prepare(target, after())
    prepare(target, after())  # and is then one that fits
    with in_driver(target) as database:
        assert database.query(f"SELECT id, word, price, document FROM {target.table}") == [(1, "a", None, None)]
    prepare(target, BEFORE)  # a pipeline that does not write them leaves them NULL


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (schema(id=StringType(), word=StringType(), **MORE), "column 'id' of table"),
        (schema(id=LongType(), word=LongType(), **MORE), "column 'word' of table"),
    ],
    ids=["of the first", "of the last"],
)
def test_any_other_change_is_refused_before_a_column_is_added(
    new_target: NewTarget, changed: StructType, message: str
) -> None:
    target = new_target(adds_columns=True)
    prepare(target, BEFORE)
    with pytest.raises(TableRefused, match=message):
        prepare(target, changed)
    assert set(existing_types(target)) == {"id", "word"}


def test_a_column_of_the_key_is_never_added(new_target: NewTarget) -> None:
    prepare(new_target(), BEFORE)
    target = new_target(mode="upsert", key=("id", "part"), adds_columns=True)
    with pytest.raises(TableRefused, match="has no column 'part'"):
        prepare(target, schema(id=LongType(), word=StringType(), part=LongType()))
    assert set(existing_types(target)) == {"id", "word"}
