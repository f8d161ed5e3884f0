"""At most once: progress first, then the effect. A crash may leave a visitor ungreeted; nobody is greeted twice."""

from penstock import Consumer

config = {"bootstrap.servers": "localhost:9092", "group.id": "greeter", "auto.offset.reset": "earliest"}

with Consumer(config, value_deserializer="string") as consumer:
    consumer.subscribe("visitors")
    consumer.run(lambda record: print("hello", record.value, flush=True), guarantee="at_most_once")
