"""A pipeline's progress as the offsets of a consumer group of its name, so that every tool for lag sees it.

A mirror and no more: a pipeline goes on where its checkpoint says, and a mirror that fails fails nothing. A mark on the
offsets says so (`core/mirrored_offsets.py`), because moving them has no effect.

Invariant: an offset is mirrored after the batch that ends there is committed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from penstock.core.errors import ClientError, ProtocolError
from penstock.core.ids import OffsetAndMetadata, TopicPartition
from penstock.core.mirrored_offsets import MirroredFrom
from penstock.pipeline.sources.source import Source
from penstock.protocol.error_codes import BrokerError
from penstock.wire.client import WIRE_SETTING_NAMES, WireClient

logger = logging.getLogger(__name__)

_TIMEOUT_S: Final = 5.0


class GroupMirror:
    """`sources` with the client settings of their brokers; each topic is mirrored where it is."""

    def __init__(self, group: str, sources: list[tuple[Source, Mapping[str, str]]], *, checkpoint: str) -> None:
        self._group = group
        self._mark = MirroredFrom("checkpoint", checkpoint).to_metadata()
        self._sources = sources
        self._clients: dict[str, WireClient] = {}
        self._mirrored: dict[TopicPartition, int] = {}
        self._complained = False

    def commit(self, ends: Mapping[TopicPartition, int]) -> None:
        news = {partition: end for partition, end in ends.items() if self._mirrored.get(partition) != end}
        for source, settings in self._sources:
            own = {
                partition: OffsetAndMetadata(end, self._mark)
                for partition, end in news.items()
                if source.reads(partition.topic)
            }
            if own and self._commit(settings, own):
                self._mirrored |= {partition: news[partition] for partition in own}

    def _commit(self, settings: Mapping[str, str], offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> bool:
        try:
            self._client(settings).offset_commit(self._group, offsets, timeout_s=_TIMEOUT_S)
        except (ClientError, BrokerError, ProtocolError) as failure:
            if not self._complained:
                self._complained = True
                logger.warning("the progress of '%s' is not mirrored to its consumer group: %s", self._group, failure)
            return False
        return True

    def _client(self, settings: Mapping[str, str]) -> WireClient:
        servers = settings["bootstrap.servers"]
        if servers not in self._clients:
            known = {name: value for name, value in settings.items() if name in WIRE_SETTING_NAMES}
            self._clients[servers] = WireClient(known)
        return self._clients[servers]

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
