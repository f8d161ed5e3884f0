"""Exactly once into SQLite: results and offsets commit in one transaction, so a crash leaves both or neither."""

from signal import SIGINT, signal
from sqlite3 import Connection, connect

from penstock import Consumer, Record, SQLiteStore

config = {"bootstrap.servers": "localhost:9092", "group.id": "revenue", "auto.offset.reset": "earliest"}
database = connect("revenue.db")
database.execute("CREATE TABLE IF NOT EXISTS revenue (customer TEXT PRIMARY KEY, total INTEGER)")


def add(record: Record, transaction: Connection) -> None:
    transaction.execute(
        "INSERT INTO revenue VALUES (:customer, :amount) ON CONFLICT DO UPDATE SET total = total + :amount",
        record.value,
    )
    print(f"added {record.value['amount']} to {record.value['customer']}, offset {record.offset}", flush=True)


print("adding orders up in revenue.db, exactly once; ctrl-C ends", flush=True)
with Consumer(config, value_deserializer="json") as consumer:
    consumer.subscribe("orders")
    signal(SIGINT, lambda *_: consumer.stop())  # after the record that is being handled
    consumer.run(add, guarantee="exactly_once", store=SQLiteStore(database))
print("stopped")
