"""At least once: handle the record, then commit its offset. A crash may repeat lines; it never loses one."""

from signal import SIGINT, signal

from penstock import Consumer, Record

config = {"bootstrap.servers": "localhost:9092", "group.id": "archive", "auto.offset.reset": "earliest"}

print("writing visitors to visitors.log, at least once; ctrl-C ends", flush=True)
with Consumer(config, value_deserializer="string") as consumer, open("visitors.log", "a", buffering=1) as archive:

    def keep(record: Record) -> None:
        archive.write(f"{record.timestamp} {record.value}\n")
        print(f"wrote {record.value}, offset {record.offset}", flush=True)

    consumer.subscribe("visitors")
    signal(SIGINT, lambda *_: consumer.stop())  # after the record that is being handled
    consumer.run(keep, guarantee="at_least_once")
print("stopped")
