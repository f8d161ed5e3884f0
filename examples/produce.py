"""Sends orders and visitors, and prints where each record is. Every send returns a future; no polling is needed."""

from penstock import Producer

with Producer({"bootstrap.servers": "localhost:9092"}, value_serializer="json") as producer:
    for customer, amount in (("ada", 3), ("bob", 4), ("ada", 5)):
        sent = producer.send("orders", {"customer": customer, "amount": amount}, key=customer).result(30)
        print(f"order of {customer}: {sent.topic}, partition {sent.partition}, offset {sent.offset}")

with Producer({"bootstrap.servers": "localhost:9092"}, value_serializer="string") as producer:
    for visitor in ("ada", "bob", "ada"):
        sent = producer.send("visitors", visitor).result(30)
        print(f"visitor {visitor}: {sent.topic}, partition {sent.partition}, offset {sent.offset}")
