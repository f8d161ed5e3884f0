"""Sql and Python."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.connect.config.definition import ConfigException
from penstock.connect.data import schema as connect
from penstock.connect.data.records import RecordGroup
from penstock.connect.data.schema import struct
from tests.unit.connect.transforms.record_groups import apply, column, failures, group, only, plugin, values

SQL = "penstock.transforms.Sql"
PYTHON = "penstock.transforms.Python"
ORDER = struct(
    {"id": connect.INT32, "qty": connect.STRING, "price": connect.decimal(2), "day": connect.date()}, name="Order"
)


def orders() -> RecordGroup:
    rows = [{"id": number, "qty": qty, "price": b"\x64", "day": 1} for number, qty in ((1, "3"), (2, "x"), (3, "5"))]
    return group(column(ORDER, rows))


def test_a_query_projects_and_filters_and_keeps_rows() -> None:
    query = "SELECT *, price * 2 AS twice, _topic || '!' AS topic FROM record WHERE id <> 2;"
    selected = only(apply(SQL, {"query": query}, orders()))
    assert selected.rows.to_pylist() == [100, 102]
    assert selected.value.values.to_pylist()[1] == {
        "id": 3, "qty": "5", "price": b"\x64", "day": 1, "twice": b"\x00\xc8", "topic": "orders!",
    }  # fmt: skip
    schema = selected.value.schema
    assert schema is not None
    assert schema.name == "Order"
    assert [field.schema for field in schema.fields[:4]] == [field.schema.optional() for field in ORDER.fields]
    assert schema.fields[5].schema == connect.STRING.optional()


def test_a_record_that_cannot_be_computed_fails_alone() -> None:
    result = apply(SQL, {"query": "SELECT id, qty::INT AS qty FROM record"}, orders())
    assert values(result) == [{"id": 1, "qty": 3}, {"id": 3, "qty": 5}]
    assert list(failures(result)) == [101]
    assert "Could not convert string 'x' to INT32" in failures(result)[101]


def test_a_column_that_a_group_lacks_fails_the_group() -> None:
    result = apply(SQL, {"query": "SELECT nope FROM record"}, orders())
    assert sorted(failures(result)) == [100, 101, 102]


def test_maps_without_schema_stay_so_and_one_record_may_become_several() -> None:
    records = group(column(None, [{"a": [1, 2], "b": "x"}, {"a": [3], "b": "y"}]))
    selected = only(apply(SQL, {"query": "SELECT unnest(a) AS n, b FROM record"}, records))
    assert selected.value.schema is None
    assert selected.value.values.to_pylist() == [{"n": 1, "b": "x"}, {"n": 2, "b": "x"}, {"n": 3, "b": "y"}]
    assert selected.rows.to_pylist() == [100, 100, 101]


def test_values_that_are_no_structs_have_a_column_and_tombstones_pass() -> None:
    records = group(column(connect.STRING.optional(), ["a", None]))
    result = apply(SQL, {"query": "SELECT upper(value) AS text FROM record"}, records)
    assert values(result) == [{"text": "A"}, None]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) FROM record",
        "SELECT id, sum(qty) FROM record GROUP BY id",
        "SELECT row_number() OVER () FROM record",
        "SELECT DISTINCT id FROM record",
        "SELECT id FROM record LIMIT 1",
        "SELECT 1",
        "SELECT id FROM record UNION SELECT 2",
        "DELETE FROM record",
        "SELEC",
    ],
)
def test_queries_that_are_not_for_a_record_are_refused(query: str) -> None:
    with pytest.raises(ConfigException, match="for configuration query: "):
        plugin(SQL, {"query": query})


def test_queries_do_not_read_files() -> None:
    result = apply(SQL, {"query": "SELECT id, (SELECT content FROM read_text('/etc/hostname')) FROM record"}, orders())
    assert sorted(failures(result)) == [100, 101, 102]


# Functions that the tests below name


def twice(table: pa.Table) -> pa.Table:
    return pa.table({"id": pc.multiply(table["id"], 2)})


def odd(table: pa.Table) -> pa.Table:
    return table.filter(pc.equal(pc.bit_wise_and(table["id"], 1), 1)).select(["id", "_row"])


def broken(table: pa.Table) -> pa.Table:
    raise ValueError("not today")


def first(table: pa.Table) -> pa.Table:
    return table.slice(0, 1).select(["id"])


def renumbered(table: pa.Table) -> pa.Table:
    return table.select(["id"]).append_column("_row", pa.array([7, 8, 9]))


def doubled(table: pa.Table) -> pa.Table:
    return pa.Table.from_arrays([table["id"], table["id"]], names=["a", "a"])


def nested(table: pa.Table) -> pa.Table:
    days = pa.array(
        [[{"day": datetime.date(2024, 2, 29)}]] * len(table), pa.large_list(pa.struct([("day", pa.date32())]))
    )
    return pa.table({"days": days})


def stretched(table: pa.Table) -> pa.Table:
    return pa.table({"id": pa.array([(1, 2, 3)] * len(table), pa.month_day_nano_interval())})


NOT_CALLABLE = 7
HERE = __name__


def test_a_function_makes_new_values() -> None:
    assert values(apply(PYTHON, {"function": f"{HERE}:twice"}, orders())) == [{"id": 2}, {"id": 4}, {"id": 6}]


def test_a_function_that_drops_records_keeps_their_numbers() -> None:
    result = only(apply(PYTHON, {"function": f"{HERE}:odd"}, orders()))
    assert result.rows.to_pylist() == [100, 102]
    assert result.value.values.to_pylist() == [{"id": 1}, {"id": 3}]


def test_what_a_function_raises_is_a_failure() -> None:
    result = apply(PYTHON, {"function": f"{HERE}:broken"}, orders())
    assert failures(result) == dict.fromkeys((100, 101, 102), f"{HERE}:broken: ValueError: not today")


def test_a_function_must_not_lose_the_numbers_of_records() -> None:
    result = apply(PYTHON, {"function": f"{HERE}:first"}, orders())
    assert set(failures(result).values()) == {f"{HERE}:first returned 1 rows for 3 records, without the column _row"}


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("renumbered", "The column _row does not hold the numbers that it had"),
        ("doubled", "Two columns have the same name: a, a, _row"),
    ],
)
def test_tables_that_make_no_sense_fail(function: str, message: str) -> None:
    assert set(failures(apply(PYTHON, {"function": f"{HERE}:{function}"}, orders())).values()) == {message}


def test_a_field_must_not_have_the_name_of_a_pseudo_column() -> None:
    result = apply(SQL, {"query": "SELECT * FROM record"}, group(column(None, [{"_key": 1}])))
    assert failures(result)[100].startswith("The value has a field _key")


@pytest.mark.parametrize("function", ["nothing", "no.such.module:f", f"{HERE}:missing", f"{HERE}:NOT_CALLABLE"])
def test_a_function_that_is_none_is_refused(function: str) -> None:
    with pytest.raises(ConfigException, match="for configuration function: "):
        plugin(PYTHON, {"function": function})


def test_nested_values_without_a_schema_become_what_json_knows() -> None:
    records = group(column(None, [{"id": 1}]))
    assert values(apply(PYTHON, {"function": f"{HERE}:nested"}, records)) == [{"days": [{"day": "2024-02-29"}]}]
    refused = failures(apply(PYTHON, {"function": f"{HERE}:stretched"}, records))
    assert "month_day_nano_interval" in refused[100]
