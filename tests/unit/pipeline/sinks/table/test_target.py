"""What every process of Spark is told about a table, and that passwords stay out of sight."""

from __future__ import annotations

import pytest

from penstock.pipeline.sinks.table.errors import TableRefused
from penstock.pipeline.sinks.table.target import TableTarget

TARGET = TableTarget(
    url="postgresql://me:hunter2@db/shop",
    table="public.revenue",
    mode="upsert",
    key=("customer", "a,b\\c"),
    pipeline="revenue",
    run="r1",
    guarantee="at_least_once",
    checkpoint="/c",
    dead_letters="dlq",
    deletes=True,
    json_columns=("document", "x,y"),
    adds_columns=True,
    kafka=(("bootstrap.servers", "b:9092"), ("sasl.password", "hunter3")),
)


def test_options_carry_everything() -> None:
    assert TableTarget.from_options(TARGET.options()) == TARGET


def test_no_secret_is_shown() -> None:
    assert "hunter" not in repr(TARGET)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"mode": "replace"}, "option mode=replace: expected append, upsert"),
        ({"guarantee": "mostly"}, "option guarantee=mostly: expected exactly_once"),
        ({"run": ""}, "option run is missing"),
    ],
)
def test_options_that_cannot_be_meant(changed: dict[str, str], message: str) -> None:
    with pytest.raises(TableRefused, match=message):
        TableTarget.from_options({**TARGET.options(), **changed})
