"""Connections of a mirror connector on the driver, to both clusters, and when it asks them.

Owns the clients: opened on first use, kept by the driver (a pickled copy has none), closed by `close`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from penstock.connect.connector import RetriableError
from penstock.connect.connectors.mirror.settings import SOURCE_SERVERS, MirrorSettings
from penstock.core.errors import BrokerUnreachable
from penstock.wire.client import WireClient


class Clusters:
    def __init__(self, settings: MirrorSettings) -> None:
        self._settings = settings
        self._source: WireClient | None = None
        self._target: WireClient | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_source": None, "_target": None}

    @property
    def source(self) -> WireClient:
        if self._source is None:
            self._source = WireClient(self._settings.source.wire("admin", {}))
        return self._source

    def target(self, settings: Mapping[str, str]) -> WireClient:
        if self._target is None:
            self._target = WireClient(settings)
        return self._target

    def close(self) -> None:
        for client in (self._source, self._target):
            if client is not None:
                client.close()
        self._source = self._target = None


def is_due(last: float | None, interval_s: float) -> bool:
    """`last` is of the monotonic clock; None: it has never been done."""
    return last is None or time.monotonic() - last >= interval_s


@contextmanager
def source_named(settings: MirrorSettings) -> Iterator[None]:
    """Around calls to the source cluster: an error says which of the two clusters is away."""
    try:
        yield
    except BrokerUnreachable as error:
        raise RetriableError(f"source cluster '{settings.source_alias}' ({SOURCE_SERVERS}): {error}") from error
