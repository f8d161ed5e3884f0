"""Committed offsets of connectors: shown, changed and reset (KIP-875).

Owns where they are: a sink's in its ledger or its consumer group, a source's in the offsets topic
or a standalone worker's file. It must not know
whether a connector runs: the herder asks for changes of stopped ones only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.client.admin import Admin
from penstock.connect.connector import ConnectError, SinkConnector, SourceOffset, SourcePartition
from penstock.connect.runtime.client_settings import ConsumerSettings, WorkerProperties
from penstock.connect.runtime.connector_runs import create_offsets_topic, guarantee_of
from penstock.connect.runtime.offset_storage import OffsetChanges, OffsetsFile, offset_storage
from penstock.connect.runtime.source_offsets import offset_rows
from penstock.connect.runtime.source_run import transactional_id
from penstock.connect.runtime.topic_creation import TopicCreation
from penstock.connect.runtime.topic_writing import TopicEncoders, TopicWriter
from penstock.connect.storage.offset_file import OffsetFile
from penstock.core.errors import GroupNotEmpty, UnknownGroup
from penstock.core.ids import OffsetAndMetadata, ProducerIdentity, TopicPartition
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.wire.client import WireClient

_MEMBERS: Final = (
    "Failed to {action} consumer group offsets for connector {name} because group '{group}' has members: stop the"
    " consumers that use it, and try again"
)


class ConnectorOffsets:
    def __init__(self, settings: WorkerProperties, offset_file: OffsetFile | None = None) -> None:
        """`offset_file` is that of a standalone worker."""
        self._settings = settings
        self._offset_file = offset_file

    # Sinks

    def of_sink(self, sink: SinkConnector) -> dict[TopicPartition, int]:
        settings = self._settings.consumer(sink.name, sink.config)
        with WireClient(settings.wire) as client:
            if guarantee_of(sink, sink.config) == "exactly_once":
                return dict(sink.positions(()) or {})
            return {partition: each.offset for partition, each in client.offset_fetch(settings.group).items()}

    def alter_sink(self, sink: SinkConnector, offsets: Mapping[TopicPartition, int | None] | None) -> None:
        """A ledger decides where its connector goes on, and the group has a copy: the ledger is changed first."""
        settings = self._settings.consumer(sink.name, sink.config)
        if guarantee_of(sink, sink.config) == "exactly_once":
            sink.set_positions(dict.fromkeys(self.of_sink(sink)) if offsets is None else offsets)
        with WireClient(settings.wire) as client:
            if offsets is not None and all(offset is not None for offset in offsets.values()):
                self._commit(client, sink.name, settings.group, offsets)
                return
            # Brokers delete offsets of a topic only with all others of the group, as far as our clients can ask them.
            kept: dict[TopicPartition, int | None] = {}
            if offsets is not None:
                before = client.offset_fetch(settings.group)
                kept = {**{partition: each.offset for partition, each in before.items()}, **offsets}
            self._delete_group(sink.name, settings)
            self._commit(client, sink.name, settings.group, kept)

    def _commit(self, client: WireClient, name: str, group: str, offsets: Mapping[TopicPartition, int | None]) -> None:
        wanted = {each: OffsetAndMetadata(offset) for each, offset in offsets.items() if offset is not None}
        if not wanted:
            return
        try:
            client.offset_commit(group, wanted)
        except BrokerError as refusal:
            if refusal.code != ErrorCode.UNKNOWN_MEMBER_ID:
                raise
            raise ConnectError(_MEMBERS.format(action="alter", name=name, group=group)) from refusal

    def _delete_group(self, name: str, settings: ConsumerSettings) -> None:
        try:
            Admin(dict(settings.wire)).delete_group(settings.group)
        except UnknownGroup:
            return
        except GroupNotEmpty as refusal:
            raise ConnectError(_MEMBERS.format(action="reset", name=name, group=settings.group)) from refusal

    # Sources

    def of_source(self, name: str, config: Mapping[str, str]) -> list[tuple[SourcePartition, SourceOffset]]:
        storage = offset_storage(self._settings, self._offset_file, name, config)
        with WireClient(self._settings.consumer(name, config).wire) as client:
            stored = storage.read(client, name)
        return [(each.partition, each.offset) for each in stored.values()]

    def fence(self, name: str, config: Mapping[str, str], task_count: int) -> list[ProducerIdentity]:
        """Earlier runs of the tasks can commit nothing more, and their open transactions are aborted."""
        settings = self._settings.producer(config)
        with WireClient(settings.wire) as client:
            return [
                client.init_producer_id(
                    transactional_id(self._settings.group_id, name, task),
                    transaction_timeout_ms=settings.transaction_timeout_ms,
                )
                for task in range(task_count)
            ]

    def alter_source(
        self,
        name: str,
        config: Mapping[str, str],
        offsets: OffsetChanges | None,
        task_count: int,
    ) -> None:
        """None: a tombstone for each partition. With exactly-once support, in a transaction of the first task's id."""
        storage = offset_storage(self._settings, self._offset_file, name, config)
        settings = self._settings.producer(config)
        identities = self.fence(name, config, task_count) if self._settings.exactly_once_sources else []
        with WireClient(settings.wire) as client:
            stored = storage.read(client, name)
            keys = {key: each.key for key, each in stored.items()}
            changes = [(each.partition, None) for each in stored.values()] if offsets is None else offsets
            if not changes:
                return
            if isinstance(storage, OffsetsFile):
                storage.save(name, changes, keys)
                return
            if storage.file is not None and offsets is None:
                storage.file.save(name, changes, keys)
            create_offsets_topic(client, self._settings, storage.written)
            task_id = transactional_id(self._settings.group_id, name, 0)
            if identities:
                sender = client.sender(producer=identities[0], transactional_id=task_id)
            else:
                sender = client.sender(producer=client.init_producer_id())
            writer = TopicWriter(TopicEncoders(client, settings, TopicCreation(), 0), sender)
            for topic in storage.topics if offsets is None else (storage.written,):
                writer.write(topic, offset_rows(name, changes, keys))
            writer.flush()
            if identities:
                client.end_txn(task_id, identities[0], commit=True)
