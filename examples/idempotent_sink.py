"""Exactly once by deduplication: the database remembers applied records, and a redelivered one is skipped."""

from signal import SIGINT, signal
from sqlite3 import Connection, connect

from penstock import Consumer, Deduplicated, Record, SQLiteStore

config = {"bootstrap.servers": "localhost:9092", "group.id": "counter", "auto.offset.reset": "earliest"}
database = connect("counts.db")
database.execute("CREATE TABLE IF NOT EXISTS counts (visitor TEXT PRIMARY KEY, visits INTEGER)")


def count(record: Record, transaction: Connection) -> None:
    transaction.execute(
        "INSERT INTO counts VALUES (?, 1) ON CONFLICT DO UPDATE SET visits = visits + 1", [record.value]
    )
    print(f"counted {record.value}, offset {record.offset}", flush=True)


print("counting visitors in counts.db, each record once; ctrl-C ends", flush=True)
with Consumer(config, value_deserializer="string") as consumer:
    consumer.subscribe("visitors")
    signal(SIGINT, lambda *_: consumer.stop())  # after the record that is being handled
    consumer.run(count, guarantee="exactly_once", store=Deduplicated(SQLiteStore(database)))
print("stopped")
