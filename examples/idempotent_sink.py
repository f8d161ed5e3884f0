"""Exactly once by deduplication: the database remembers applied records, and a redelivered one is skipped."""

from sqlite3 import Connection, connect

from penstock import Consumer, Deduplicated, Record, SQLiteStore

config = {"bootstrap.servers": "localhost:9092", "group.id": "counter", "auto.offset.reset": "earliest"}
database = connect("counts.db")
database.execute("CREATE TABLE IF NOT EXISTS counts (visitor TEXT PRIMARY KEY, visits INTEGER)")


def count(record: Record, transaction: Connection) -> None:
    transaction.execute(
        "INSERT INTO counts VALUES (?, 1) ON CONFLICT DO UPDATE SET visits = visits + 1", [record.value]
    )


with Consumer(config, value_deserializer="string") as consumer:
    consumer.subscribe("visitors")
    consumer.run(count, guarantee="exactly_once", store=Deduplicated(SQLiteStore(database)))
