"""At most once: commit the offset, then handle the record. A crash may skip a greeting; it never repeats one."""

from signal import SIGINT, signal

from penstock import Consumer, Record

config = {"bootstrap.servers": "localhost:9092", "group.id": "greeter", "auto.offset.reset": "earliest"}


def greet(record: Record) -> None:
    print("hello", record.value, flush=True)


print("greeting visitors, at most once; ctrl-C ends", flush=True)
with Consumer(config, value_deserializer="string") as consumer:
    consumer.subscribe("visitors")
    signal(SIGINT, lambda *_: consumer.stop())  # after the record that is being handled
    consumer.run(greet, guarantee="at_most_once")
print("stopped")
