"""Penstock, a Kafka-compatible streaming platform. These names are its clients; each is imported when it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from penstock.client.admin import Admin
    from penstock.client.consumer import Consumer
    from penstock.client.deduplication import Deduplicated
    from penstock.client.delivery import HandlerError
    from penstock.client.kafka_transaction import KafkaTransaction
    from penstock.client.partitioners import Hash, RoundRobin
    from penstock.client.postgres_store import PostgresStore
    from penstock.client.producer import Producer
    from penstock.client.records import Record, RecordMetadata, TopicPartition
    from penstock.client.sqlite_store import SQLiteStore

__all__ = [
    "Admin",
    "Consumer",
    "Deduplicated",
    "HandlerError",
    "Hash",
    "KafkaTransaction",
    "PostgresStore",
    "Producer",
    "Record",
    "RecordMetadata",
    "RoundRobin",
    "SQLiteStore",
    "TopicPartition",
]

_HOMES: Final = {
    "Admin": "admin",
    "Consumer": "consumer",
    "Deduplicated": "deduplication",
    "HandlerError": "delivery",
    "Hash": "partitioners",
    "KafkaTransaction": "kafka_transaction",
    "PostgresStore": "postgres_store",
    "Producer": "producer",
    "Record": "records",
    "RecordMetadata": "records",
    "RoundRobin": "partitioners",
    "SQLiteStore": "sqlite_store",
    "TopicPartition": "records",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'penstock' has no attribute '{name}'")
    from importlib import import_module

    found = getattr(import_module(f"penstock.client.{home}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
