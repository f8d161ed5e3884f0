"""Where landed rows go: by COPY into the table itself, or by way of a table of the session, and that both are right."""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from penstock.pipeline.sinks.table.errors import DatabaseAccessDenied, TableRefused
from tests.postgres_server import PostgresServer
from tests.unit.pipeline.sinks.table.landing_table import MANY, SCHEMA, NewLanding, words

INTEGERS = StructType([StructField("id", IntegerType()), StructField("word", StringType())])


@pytest.mark.parametrize(
    ("create", "schema", "in_session"),
    [
        ("id bigint, word text", SCHEMA, False),
        ("word varchar(20), more int DEFAULT 7, id bigint", SCHEMA, False),
        ("id bigint, word char(20)", SCHEMA, True),
        ("id bigint, word text", INTEGERS, True),
        ("id numeric, word text", SCHEMA, True),
    ],
)
def test_columns_are_converted_where_they_have_to_be(
    new_landing: NewLanding, create: str, schema: StructType, in_session: bool
) -> None:
    table = new_landing(create=f"CREATE TABLE {{table}} ({create})", schema=schema)
    assert table.lands_in_session() is in_session
    table.commit(table.stage(words(MANY)), table.stage(words(10, "few")))
    assert table.rows("id::int, trim(word)") == Counter([*words(MANY), *words(10, "few")])


def test_text_becomes_json(new_landing: NewLanding) -> None:
    table = new_landing(create="CREATE TABLE {table} (id bigint, word jsonb)")
    assert table.lands_in_session()
    table.commit(table.stage([(number, f'{{"a": {number}}}') for number in range(MANY)]))
    assert table.rows("id, (word->'a')::int") == Counter((number, number) for number in range(MANY))
    with pytest.raises(TableRefused, match="invalid input syntax for type json"):
        table.commit(table.stage([*words(MANY)], attempt="b"), batch=1)


def test_policies_for_rows_are_obeyed(new_landing: NewLanding, postgres: PostgresServer) -> None:
    role = "restricted"
    plain = new_landing()
    plain.sql(f"CREATE ROLE {role} LOGIN")
    plain.sql(f"CREATE SCHEMA {role} AUTHORIZATION {role}")
    table = new_landing(
        url=postgres.url.replace("penstock@", f"{role}@"),
        table=f"{role}.guarded",
        create=f"SET ROLE {role}; CREATE TABLE {{table}} (id bigint, word text);"
        " ALTER TABLE {table} ENABLE ROW LEVEL SECURITY; ALTER TABLE {table} FORCE ROW LEVEL SECURITY;"
        f" CREATE POLICY small ON {{table}} FOR INSERT WITH CHECK (id < {MANY})",
    )
    assert table.lands_in_session()
    table.commit(table.stage(words(MANY)))
    assert table.rows() == Counter(words(MANY))
    with pytest.raises(DatabaseAccessDenied, match="row-level security policy"):
        table.commit(table.stage(words(MANY + 1), attempt="b"), batch=1)
    assert table.rows() == Counter(words(MANY))


def test_rules_of_a_table_are_obeyed(new_landing: NewLanding) -> None:
    table = new_landing(
        create="CREATE TABLE {table} (id bigint, word text);"
        " CREATE RULE odd_ones AS ON INSERT TO {table} WHERE NEW.id % 2 = 1 DO INSTEAD NOTHING"
    )
    table.commit(table.stage(words(MANY)))
    assert table.rows() == Counter(row for row in words(MANY) if row[0] % 2 == 0)


def test_the_last_row_of_a_key_stays(new_landing: NewLanding) -> None:
    """The later task's, although the earlier one is the last to send."""
    table = new_landing(mode="upsert")
    assert table.lands_in_session()
    table.commit(table.stage(words(10, "old"), attempt="before"))
    earlier = table.begin([*words(MANY, "early"), *words(MANY, "earlier", first=MANY)]).await_half()
    later = table.stage([*words(MANY, "late"), *words(MANY, "later")])
    table.commit(earlier.finish(), later, batch=1)
    assert table.rows() == Counter([*words(MANY, "later"), *words(MANY, "earlier", first=MANY)])
