"""Penstock, a Kafka-compatible streaming platform. These names are its clients and its pipelines; each is
imported when it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    __version__: str

    from penstock.client.admin import Admin
    from penstock.client.consumer import Consumer
    from penstock.client.delivery.deduplication import Deduplicated
    from penstock.client.delivery.handler_error import HandlerError
    from penstock.client.delivery.kafka_transaction import KafkaTransaction
    from penstock.client.delivery.loop import InvalidGuarantee
    from penstock.client.delivery.postgres_store import PostgresStore
    from penstock.client.delivery.sqlite_store import SQLiteStore
    from penstock.client.partitioners import Hash, RoundRobin
    from penstock.client.producer import Producer
    from penstock.client.records import Record, RecordMetadata
    from penstock.core.errors import (
        AccessDenied,
        BrokerUnreachable,
        BufferFull,
        ClientError,
        CommitRefused,
        CoordinatorLoading,
        DeserializationError,
        GroupNotEmpty,
        InvalidClientSetting,
        NoAssignment,
        NoOffset,
        OffsetsMirrored,
        PenstockError,
        ProducerFenced,
        SerializationError,
        TopicExists,
        TransactionAborted,
        TransactionOutcomeUnknown,
        UnknownGroup,
        UnknownTopic,
    )
    from penstock.core.ids import TopicPartition
    from penstock.pipeline.api import Pipeline
    from penstock.pipeline.declaration.spec_errors import InvalidPipeline
    from penstock.pipeline.endpoints import Console, Files, PythonSink, Table, Topic

__all__ = [
    "AccessDenied",
    "Admin",
    "BrokerUnreachable",
    "BufferFull",
    "ClientError",
    "CommitRefused",
    "Console",
    "Consumer",
    "CoordinatorLoading",
    "Deduplicated",
    "DeserializationError",
    "Files",
    "GroupNotEmpty",
    "HandlerError",
    "Hash",
    "InvalidClientSetting",
    "InvalidGuarantee",
    "InvalidPipeline",
    "KafkaTransaction",
    "NoAssignment",
    "NoOffset",
    "OffsetsMirrored",
    "PenstockError",
    "Pipeline",
    "PostgresStore",
    "Producer",
    "ProducerFenced",
    "PythonSink",
    "Record",
    "RecordMetadata",
    "RoundRobin",
    "SQLiteStore",
    "SerializationError",
    "Table",
    "Topic",
    "TopicExists",
    "TopicPartition",
    "TransactionAborted",
    "TransactionOutcomeUnknown",
    "UnknownGroup",
    "UnknownTopic",
]

_HOMES: Final = {
    "AccessDenied": "core.errors",
    "Admin": "client.admin",
    "BrokerUnreachable": "core.errors",
    "BufferFull": "core.errors",
    "ClientError": "core.errors",
    "CommitRefused": "core.errors",
    "Console": "pipeline.endpoints",
    "Consumer": "client.consumer",
    "CoordinatorLoading": "core.errors",
    "Deduplicated": "client.delivery.deduplication",
    "DeserializationError": "core.errors",
    "Files": "pipeline.endpoints",
    "GroupNotEmpty": "core.errors",
    "HandlerError": "client.delivery.handler_error",
    "Hash": "client.partitioners",
    "InvalidClientSetting": "core.errors",
    "InvalidGuarantee": "client.delivery.loop",
    "InvalidPipeline": "pipeline.declaration.spec_errors",
    "KafkaTransaction": "client.delivery.kafka_transaction",
    "NoAssignment": "core.errors",
    "NoOffset": "core.errors",
    "OffsetsMirrored": "core.errors",
    "PenstockError": "core.errors",
    "Pipeline": "pipeline.api",
    "PostgresStore": "client.delivery.postgres_store",
    "Producer": "client.producer",
    "ProducerFenced": "core.errors",
    "PythonSink": "pipeline.endpoints",
    "Record": "client.records",
    "RecordMetadata": "client.records",
    "RoundRobin": "client.partitioners",
    "SQLiteStore": "client.delivery.sqlite_store",
    "SerializationError": "core.errors",
    "Table": "pipeline.endpoints",
    "Topic": "pipeline.endpoints",
    "TopicExists": "core.errors",
    "TopicPartition": "core.ids",
    "TransactionAborted": "core.errors",
    "TransactionOutcomeUnknown": "core.errors",
    "UnknownGroup": "core.errors",
    "UnknownTopic": "core.errors",
}
_EXTRAS: Final = ("pydantic", "pyspark", "yaml")


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("penstock")
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
