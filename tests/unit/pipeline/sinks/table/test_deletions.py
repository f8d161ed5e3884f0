"""Rows that delete by key, in every database and with every guarantee's way to commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from penstock.core.guarantee import Guarantee
from penstock.pipeline.sinks.table.column_types import DELETED, columns_of
from penstock.pipeline.sinks.table.connections import forget, in_driver, trying_again
from penstock.pipeline.sinks.table.errors import DatabaseAccessDenied
from penstock.pipeline.sinks.table.preparation import claim, prepare, table_store
from penstock.pipeline.sinks.table.target import TableTarget
from penstock.pipeline.sinks.table.task_output import TaskOutput
from tests.databases import DATABASE_PARAMS
from tests.postgres_server import PostgresServer
from tests.unit.pipeline.sinks.table.landing_table import NewLanding

Row = tuple[Any, ...]
WORDS = StructType([StructField("id", LongType()), StructField("word", StringType())])
TEXT_KEYS = StructType(
    [StructField("id", StringType()), StructField("part", LongType()), StructField("word", StringType())]
)
FEW, MANY = 10, 20_000  # in the message; staged


def with_flag(schema: StructType) -> StructType:
    return StructType([*schema.fields, StructField(DELETED, BooleanType())])


class Table:
    """A pipeline's table in the hands of a test that plays the tasks and the driver."""

    def __init__(self, target: TableTarget, schema: StructType) -> None:
        self.target = target
        self.store = table_store(target, columns_of(with_flag(schema)))
        self._tasks = iter(range(1, 1000))
        self._batches = iter(range(1000))
        prepare(target, with_flag(schema))
        claim(target, with_flag(schema))

    def stage(self, rows: Sequence[Row]) -> TaskOutput:
        """Each row ends with whether it deletes."""
        output = TaskOutput("a", "q", next(self._tasks))
        self.store.stage(output, iter([_arrow(self.store.rows.schema, rows)]))
        return output

    def commit(self, *tasks: Sequence[Row]) -> None:
        outputs = [self.stage(rows) for rows in tasks]
        batch_id = next(self._batches)
        if self.target.guarantee == "exactly_once":
            self.store.commit_once(outputs, batch_id)
        elif self.target.guarantee == "at_most_once":
            self.store.commit_at_most_once(outputs, batch_id)
        else:
            for output in outputs:
                self.store.write_at_least_once(output, batch_id)
        self.store.discard(outputs)

    def rows(self) -> list[Row]:
        columns = ", ".join(self.target.dialect.quoted(column.name) for column in self.store.columns)
        query = f"SELECT {columns} FROM {self.target.table}"
        return sorted(trying_again(self.target, lambda database: database.query(query)))


def _arrow(schema: Any, rows: Sequence[Row]) -> Any:
    columns = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


NewTable = Callable[..., Table]


@pytest.fixture(params=DATABASE_PARAMS)
def new_table(request: pytest.FixtureRequest, urls: Callable[[str], str]) -> Iterator[NewTable]:
    targets = []

    def create(
        schema: StructType = WORDS, key: tuple[str, ...] = ("id",), guarantee: Guarantee = "exactly_once"
    ) -> Table:
        name = f"t{uuid4().hex[:10]}"
        targets.append(
            TableTarget(
                url=urls(request.param),
                table=name,
                mode="upsert",
                key=key,
                pipeline=name,
                run=uuid4().hex,
                guarantee=guarantee,
                deletes=True,
            )
        )
        return Table(targets[-1], schema)

    yield create
    for target in targets:
        forget(target)


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once", "at_most_once"])
@pytest.mark.parametrize("more", [0, MANY], ids=["few", "many"])
def test_the_last_change_of_a_key_wins_also_when_it_deletes(
    new_table: NewTable, more: int, guarantee: Guarantee
) -> None:
    table = new_table(guarantee=guarantee)
    rest = [(number, "kept", False) for number in range(100, 100 + more)]
    table.commit([(number, "old", False) for number in range(FEW)] + rest)
    gone = [(number, None, True) for number, _, _ in rest]
    table.commit(
        [
            (1, None, True),
            (2, "new", False),
            (2, None, True),
            (3, None, True),
            (3, "again", False),
            (4, "first", False),
            (4, None, True),
            (4, "last", False),
            (50, None, True),
            (51, "new", False),
            (52, "never seen", False),
            (52, None, True),
            *gone,
        ]
    )
    kept = [(number, "old") for number in (0, 5, 6, 7, 8, 9)]
    assert table.rows() == sorted([*kept, (3, "again"), (4, "last"), (51, "new")])


def test_a_later_task_wins_over_an_earlier_one(new_table: NewTable) -> None:
    table = new_table()
    table.commit([(1, "a", False), (2, None, True)], [(1, None, True), (2, "b", False)])
    assert table.rows() == [(2, "b")]


@pytest.mark.parametrize("more", [0, MANY], ids=["few", "many"])
def test_keys_of_several_columns_and_texts_that_look_alike(new_table: NewTable, more: int) -> None:
    table = new_table(TEXT_KEYS, ("id", "part"))
    rest = [(f"key {number}", 0, "x", False) for number in range(more)]
    table.commit([(key, part, "old", False) for key in ("a", "a ", "A", "ä") for part in (1, 2)] + rest)
    table.commit(
        [("a", 1, None, True), ("A", 2, None, True), ("a ", 2, None, True), *((*row[:3], True) for row in rest)]
    )
    assert table.rows() == sorted(
        [("a", 2, "old"), ("a ", 1, "old"), ("A", 1, "old"), ("ä", 1, "old"), ("ä", 2, "old")]
    )


def test_rows_that_land_in_the_open_transaction_delete_as_well(new_landing: NewLanding) -> None:
    table = new_landing(mode="upsert", deletes=True)
    old = [(number, "old", False) for number in range(MANY)]
    table.commit(table.stage(old))
    changes = [(number, None, number % 2 == 0) for number in range(MANY)]
    table.commit(table.stage(changes, attempt="b"), batch=1)
    assert set(table.rows()) == {(number, None) for number in range(1, MANY, 2)}


def test_a_user_who_may_not_delete_is_told_so(postgres: PostgresServer) -> None:
    name = f"t{uuid4().hex[:8]}"
    owner = TableTarget(url=postgres.url, table=name, mode="upsert", key=("id",), pipeline=name, run="r", deletes=True)
    prepare(owner, with_flag(WORDS))
    with in_driver(owner) as database:
        database.execute(f"CREATE ROLE {name} LOGIN")
        database.execute(f"GRANT INSERT, UPDATE, SELECT ON {name} TO {name}")
    user = replace(owner, url=postgres.url.replace("penstock@", f"{name}@"))
    with pytest.raises(DatabaseAccessDenied, match="may not DELETE: GRANT INSERT, UPDATE, SELECT, DELETE ON"):
        prepare(user, with_flag(WORDS))
