"""Sends records, and says where each went. Every send has a future; nothing has to be polled."""

from penstock import Producer

with Producer({"bootstrap.servers": "localhost:9092"}, value_serializer="json") as producer:
    deliveries = [producer.send("orders", {"customer": who, "amount": 3}, key=who) for who in ("ada", "bob", "ada")]
    for delivery in deliveries:
        print(delivery.result())
