"""Sends records and prints the partition and offset of each. Every send returns a future; no polling is needed."""

from penstock import Producer

with Producer({"bootstrap.servers": "localhost:9092"}, value_serializer="json") as producer:
    deliveries = [producer.send("orders", {"customer": who, "amount": 3}, key=who) for who in ("ada", "bob", "ada")]
    for delivery in deliveries:
        print(delivery.result())
