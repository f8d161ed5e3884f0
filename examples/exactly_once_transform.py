"""Exactly once from topic to topic: one Kafka transaction holds the produced records and the consumed offsets."""

from signal import SIGINT, signal

from penstock import Consumer, KafkaTransaction, Producer, Record

servers = {"bootstrap.servers": "localhost:9092"}


def bill(record: Record, transaction: Producer) -> None:
    order = record.value
    transaction.send("invoices", {"to": order["customer"], "cents": order["amount"] * 100}, key=record.key)
    print(f"billed {order['customer']}, offset {record.offset}", flush=True)


print("writing an invoice for each order, exactly once; ctrl-C ends", flush=True)
with (
    Producer({**servers, "transactional.id": "billing-1"}, value_serializer="json") as producer,
    Consumer(
        {**servers, "group.id": "billing", "auto.offset.reset": "earliest"}, value_deserializer="json"
    ) as consumer,
):
    consumer.subscribe("orders")
    signal(SIGINT, lambda *_: consumer.stop())  # after the record that is being handled
    consumer.run(bill, guarantee="exactly_once", store=KafkaTransaction(producer))
print("stopped")
