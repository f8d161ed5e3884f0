"""A table of every database as a source: rows of a stream are joined with it, in the types that its columns have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.core.exit_codes import ExitCode
from penstock.pipeline.failure import PipelineFailed
from penstock.pipeline.sinks.table.databases import dialect_of
from tests.conftest import RunningBroker
from tests.databases import DATABASES
from tests.pipeline.pipeline_runs import Pipelines, of_kind


@pytest.mark.parametrize(
    "database", [pytest.param(name, marks=[] if name == "sqlite" else [pytest.mark.slow]) for name in DATABASES]
)
def test_a_stream_is_joined_with_a_table(
    database: str,
    spark: SparkSession,
    broker_under_test: RunningBroker,
    tmp_path: Path,
    urls: Callable[[str], str],
) -> None:
    pipelines = Pipelines(spark, broker_under_test.bootstrap_servers, tmp_path)
    url, table = urls(database), pipelines.name("customers").replace("-", "_")
    connection = dialect_of(url).connect_in_driver(url)
    connection.execute(f"CREATE TABLE {table} (name VARCHAR(20), country VARCHAR(20), since DATE, orders BIGINT)")
    connection.execute(f"INSERT INTO {table} VALUES ('ada', 'UK', '1843-01-01', 7), ('bob', NULL, NULL, NULL)")
    connection.close()
    orders = pipelines.topic("orders")
    pipelines.send(orders, [{"customer": "ada"}, {"customer": "bob"}, {"customer": "cy"}])
    joined = f"""
        name: {pipelines.name("joined")}
        sources:
          orders: {{topic: {orders}, schema: "customer STRING"}}
          customers: {{table: {table}, url: "{url}", schema: "name STRING, country STRING, since DATE, orders BIGINT"}}
        transform: SELECT customer, country, year(since) AS since, orders + 1 AS orders
          FROM orders LEFT JOIN customers ON name = customer
        sink: {{console: true}}
    """
    shown = [row for event in of_kind(pipelines.once(joined), "rows") for row in event["rows"]]
    nothing = {"country": None, "since": None, "orders": None}
    assert sorted(shown, key=lambda row: str(row["customer"])) == [
        {"customer": "ada", "country": "UK", "since": 1843, "orders": 8},
        {"customer": "bob", **nothing},
        {"customer": "cy", **nothing},
    ]
    with pytest.raises(PipelineFailed, match=r"sources\.customers: table nowhere cannot be read") as refusal:
        pipelines.once(joined.replace(f"table: {table}", "table: nowhere"), checkpoint=str(tmp_path / "another"))
    assert refusal.value.exit_code == ExitCode.NOT_FOUND
