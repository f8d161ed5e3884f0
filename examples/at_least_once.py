"""At least once: handle the record, then commit its offset. A crash may repeat lines; it never loses one."""

from penstock import Consumer, Record

config = {"bootstrap.servers": "localhost:9092", "group.id": "archive", "auto.offset.reset": "earliest"}

with Consumer(config, value_deserializer="string") as consumer, open("visitors.log", "a", buffering=1) as archive:

    def keep(record: Record) -> None:
        archive.write(f"{record.timestamp} {record.value}\n")

    consumer.subscribe("visitors")
    consumer.run(keep, guarantee="at_least_once")
