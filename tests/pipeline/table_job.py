"""A pipeline from numbers into a table, as tests run it: in the session of all tests, or in a driver of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from penstock.pipeline.sinks.table.names import TableNames
from penstock.pipeline.sinks.table.preparation import claim, prepare
from penstock.pipeline.sinks.table.target import TableTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

# Every tenth number is a dead letter; the text makes large batches larger than a message may carry.
TRANSFORM: Final = {
    "append": "SELECT id, concat('number ', id) AS word, {dead} FROM numbers",
    "upsert": "SELECT id % 100 AS id, concat('number ', id) AS word, {dead} FROM numbers",
}
_DEAD: Final = """
IF(id % 10 = 3, named_struct('key', CAST(NULL AS BINARY), 'value', CAST(CAST(id AS STRING) AS BINARY),
   'reason', 'ends in 3', 'stage', 'test', 'topic', 'numbers', 'partition', 0, 'offset', id), NULL) AS __dead_letter"""


@dataclass(frozen=True)
class TableJob:
    url: str
    checkpoint: str
    run: str
    table: str = "numbers"
    mode: str = "append"
    guarantee: str = "exactly_once"
    pipeline: str = "numbers"
    count: int = 1000
    per_batch: int = 100
    dead_letters: str | None = None
    kafka: Mapping[str, str] = field(default_factory=dict)

    @property
    def target(self) -> TableTarget:
        return TableTarget(
            url=self.url,
            table=self.table,
            mode="upsert" if self.mode == "upsert" else "append",
            key=("id",) if self.mode == "upsert" else (),
            pipeline=self.pipeline,
            run=self.run,
            guarantee=self.guarantee,  # type: ignore[arg-type]
            checkpoint=self.checkpoint,
            dead_letters=self.dead_letters,
            kafka=tuple(self.kafka.items()),
        )

    def good_ids(self) -> list[int]:
        return [number for number in range(self.count) if number % 10 != 3]

    def expected(self) -> Counter[tuple[int, str]]:
        if self.mode == "append":
            return Counter((number, f"number {number}") for number in self.good_ids())
        return Counter({number % 100: (number % 100, f"number {number}") for number in self.good_ids()}.values())

    def numbers(self, spark: SparkSession) -> DataFrame:
        from tests.pipeline.numbers_source import NumbersSource

        spark.dataSource.register(NumbersSource)
        options = {"count": str(self.count), "per_batch": str(self.per_batch)}
        return spark.readStream.format("numbers").options(**options).load()

    def frame(self, spark: SparkSession) -> DataFrame:
        self.numbers(spark).createOrReplaceTempView("numbers")
        return spark.sql(TRANSFORM[self.mode].format(dead=_DEAD))

    def claim(self, spark: SparkSession) -> None:
        schema = self.frame(spark).schema
        prepare(self.target, schema)
        claim(self.target, schema)

    def start(self, spark: SparkSession) -> StreamingQuery:
        """After `claim`."""
        from penstock.pipeline.sinks.table.data_source import FORMAT, PenstockTable

        spark.dataSource.register(PenstockTable)
        writer = self.frame(spark).writeStream.format(FORMAT).options(**self.target.options())
        return writer.option("checkpointLocation", self.checkpoint).trigger(availableNow=True).start()


_READ_SQLITE: Final = """
import json, sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
print(json.dumps(connection.execute(sys.argv[2]).fetchall()))
"""


def rows_of(url: str, query: str) -> list[tuple[Any, ...]]:
    """What others see. SQLite is read by a process of its own: two SQLite libraries in one take each other's locks."""
    if url.startswith("sqlite:///"):
        path = url.removeprefix("sqlite:///")
        done = subprocess.run(
            [sys.executable, "-c", _READ_SQLITE, path, query], check=True, capture_output=True, text=True
        )
        return [tuple(row) for row in json.loads(done.stdout)]
    if url.startswith("mysql:"):
        import pymysql

        parts = urlsplit(url)
        with pymysql.connect(
            host=parts.hostname, port=parts.port or 0, user=parts.username, database=parts.path.strip("/")
        ) as connection:
            cursor = connection.cursor()
            cursor.execute(query)
            return [tuple(row) for row in cursor.fetchall()]
    import psycopg

    with psycopg.connect(url) as connection:
        return [tuple(row) for row in connection.execute(query).fetchall()]


def table_of(job: TableJob) -> Counter[tuple[int, str]]:
    return Counter((number, word) for number, word in rows_of(job.url, f"SELECT id, word FROM {job.table}"))


def dead_letters_of(job: TableJob) -> Counter[int]:
    query = f"SELECT \"offset\" FROM penstock_dead_letters WHERE pipeline = '{job.pipeline}'"
    return Counter(number for (number,) in rows_of(job.url, query))


def staging_of(job: TableJob) -> list[Any]:
    if job.url.startswith("sqlite:///"):
        path = Path(job.url.removeprefix("sqlite:///"))
        return list(path.parent.rglob("*.arrow"))
    prefix = TableNames(job.target).staging_prefix
    return rows_of(job.url, f"SELECT relname FROM pg_class WHERE starts_with(relname, '{prefix}') AND relkind = 'r'")
