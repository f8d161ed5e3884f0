"""From a topic into a table of PostgreSQL: ours exactly once, Debezium's JDBC sink at least once."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from penstock.bench.connect.flows import RECORDS_PER_BATCH, TopicFed
from penstock.bench.connect.workers import JSON
from penstock.bench.peers import PENSTOCK
from penstock.bench.raw_frames import record_batch
from penstock.testing.postgres import PostgresServer

_TABLE: Final = "orders"
# 100 B of fields; JsonConverter writes the schema beside each record, as Debezium's sink needs it.
_DOCUMENT: Final = (
    b'{"schema":{"type":"struct","optional":false,"fields":['
    b'{"field":"id","type":"int64","optional":false},{"field":"customer","type":"string","optional":false},'
    b'{"field":"amount","type":"double","optional":false}]},'
    b'"payload":{"id":12345678,"customer":"%s","amount":19.5}}'
)


class TopicToTable(TopicFed):
    key = "topic-to-table"
    title = "records with a schema, topic to PostgreSQL"
    topic = _TABLE

    def __init__(self, bootstrap_servers: str, directory: Path, time_limit_s: float, server: PostgresServer) -> None:
        super().__init__(bootstrap_servers, directory, time_limit_s)
        self._server = server

    def prepare(self) -> None:
        import psycopg

        super().prepare()
        self._connection = psycopg.connect(self._server.url, autocommit=True)
        self._connection.execute(
            f"CREATE TABLE {_TABLE} (id bigint NOT NULL, customer text NOT NULL, amount double precision NOT NULL)"
        )

    def close(self) -> None:
        self._connection.close()

    def batch(self) -> bytes:
        return record_batch(RECORDS_PER_BATCH, _DOCUMENT % (b"c" * 60), int(time.time() * 1000))

    def config(self, contestant: str) -> dict[str, str]:
        common = {
            "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
            "connection.url": f"jdbc:postgresql://127.0.0.1:{self._server.port}/postgres",
            "connection.username": "penstock",
            "connection.password": "",
            "topics": _TABLE,
            "tasks.max": "1",
            "insert.mode": "insert",
            "primary.key.mode": "none",
            "schema.evolution": "none",
            "value.converter": JSON,
            "value.converter.schemas.enable": "true",
        }
        return {**common, "guarantee": "exactly_once"} if contestant == PENSTOCK else common

    def end(self) -> int:
        return self.arrived()

    def arrived(self) -> int:
        [count] = self._connection.execute(f"SELECT count(*) FROM {_TABLE}").fetchone() or (0,)  # noqa: S608
        return int(count)
