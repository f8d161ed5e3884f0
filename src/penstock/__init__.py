"""Penstock, a Kafka-compatible streaming platform. These names are its clients and its pipelines; each is
imported when it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from penstock.client.admin import Admin
    from penstock.client.consumer import Consumer
    from penstock.client.delivery.deduplication import Deduplicated
    from penstock.client.delivery.kafka_transaction import KafkaTransaction
    from penstock.client.delivery.loop import HandlerError
    from penstock.client.delivery.postgres_store import PostgresStore
    from penstock.client.delivery.sqlite_store import SQLiteStore
    from penstock.client.partitioners import Hash, RoundRobin
    from penstock.client.producer import Producer
    from penstock.client.records import Record, RecordMetadata
    from penstock.core.ids import TopicPartition
    from penstock.pipeline.api import Pipeline
    from penstock.pipeline.declaration.spec_errors import InvalidPipeline
    from penstock.pipeline.endpoints import Console, Files, PythonSink, Table, Topic

__all__ = [
    "Admin",
    "Console",
    "Consumer",
    "Deduplicated",
    "Files",
    "HandlerError",
    "Hash",
    "InvalidPipeline",
    "KafkaTransaction",
    "Pipeline",
    "PostgresStore",
    "Producer",
    "PythonSink",
    "Record",
    "RecordMetadata",
    "RoundRobin",
    "SQLiteStore",
    "Table",
    "Topic",
    "TopicPartition",
]

_HOMES: Final = {
    "Admin": "client.admin",
    "Console": "pipeline.endpoints",
    "Consumer": "client.consumer",
    "Deduplicated": "client.delivery.deduplication",
    "Files": "pipeline.endpoints",
    "HandlerError": "client.delivery.loop",
    "Hash": "client.partitioners",
    "InvalidPipeline": "pipeline.declaration.spec_errors",
    "KafkaTransaction": "client.delivery.kafka_transaction",
    "Pipeline": "pipeline.api",
    "PostgresStore": "client.delivery.postgres_store",
    "Producer": "client.producer",
    "PythonSink": "pipeline.endpoints",
    "Record": "client.records",
    "RecordMetadata": "client.records",
    "RoundRobin": "client.partitioners",
    "SQLiteStore": "client.delivery.sqlite_store",
    "Table": "pipeline.endpoints",
    "Topic": "pipeline.endpoints",
    "TopicPartition": "core.ids",
}
_EXTRAS: Final = ("pydantic", "pyspark", "yaml")


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'penstock' has no attribute '{name}'")
    from importlib import import_module

    try:
        found = getattr(import_module(f"penstock.{home}"), name)
    except ModuleNotFoundError as missing:
        if missing.name not in _EXTRAS:
            raise
        raise ImportError(f"penstock.{name} needs {missing.name}: pip install 'penstock[spark]'") from missing
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
