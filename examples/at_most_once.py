"""At most once: commit the offset, then handle the record. A crash may skip a greeting; it never repeats one."""

from penstock import Consumer

config = {"bootstrap.servers": "localhost:9092", "group.id": "greeter", "auto.offset.reset": "earliest"}

with Consumer(config, value_deserializer="string") as consumer:
    consumer.subscribe("visitors")
    consumer.run(lambda record: print("hello", record.value, flush=True), guarantee="at_most_once")
