"""Topics of the target cluster: created like their sources, and kept like them.

Owns what a remote topic has from its source: the number of partitions, and the topic's own settings (those that
`config.properties.exclude` does not name). Settings of the source's brokers are not copied: the target's brokers have
theirs. `internal_topics.py` has the mirror's own topics.

Invariant: a topic of the target never loses partitions, and is never deleted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Final

from penstock.client.admin import Admin
from penstock.connect.connector import ConnectError
from penstock.connect.connectors.mirror.settings import Filter
from penstock.core.errors import ClientError, UnknownTopic
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.wire.client import WireClient

logger = logging.getLogger(__name__)

_VISIBLE_TIMEOUT_S: Final = 30.0
_PAUSE_S: Final = 0.02
_REMEDIES: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.INVALID_REPLICATION_FACTOR: "set {factor} to the number of brokers of that cluster, or to -1 for its"
    " default",
    ErrorCode.INVALID_CONFIG: "name the setting in config.properties.exclude",
}


class RemoteTopics:
    """`source` and `target` are settings of connections."""

    def __init__(
        self, source: Mapping[str, str], target: Mapping[str, str], *, replication_factor: int, settings: Filter
    ) -> None:
        self._source = source
        self._target = target
        self._replication_factor = replication_factor
        self._settings = settings

    def create(self, client: WireClient, partitions: Mapping[str, tuple[str, int]]) -> None:
        """`partitions`: for each topic of the target, its source and how many partitions that has.

        `client` is one of the target cluster.
        """
        known = client.metadata(partitions).topics
        missing = [name for name in partitions if name not in known]
        admin = Admin(self._source) if missing else None
        for name in missing:
            source, count = partitions[name]
            assert admin is not None
            create_topic(
                client,
                name,
                partitions=count,
                replication_factor=self._replication_factor,
                factor_property="replication.factor",
                configs=self._own_settings(admin, source),
            )
        for name, (_source, count) in partitions.items():
            if name in known and len(known[name].partitions) < count:
                Admin(self._target).set_partition_count(name, count)

    def sync_settings(self, sources: Mapping[str, str]) -> None:
        """`sources`: for each topic of the target, its source."""
        source, target = Admin(self._source), Admin(self._target)
        for name, its_source in sources.items():
            try:
                wanted = self._own_settings(source, its_source)
                present = self._own_settings(target, name)
                changes = {key: value for key, value in wanted.items() if present.get(key) != value}
                removals = [key for key in present if key not in wanted]
                if changes or removals:
                    target.alter_topic_config(name, changes=changes, removals=removals)
            except UnknownTopic:
                continue  # deleted since
            except ClientError as error:
                # Records go on; the next round tries again.
                logger.warning("settings of topic '%s' could not be copied to '%s': %s", its_source, name, error)

    def _own_settings(self, admin: Admin, topic: str) -> dict[str, str]:
        overrides = admin.describe_topic(topic).overrides
        return {name: value for name, value in overrides.items() if self._settings.accepts(name)}


def create_topic(
    client: WireClient,
    name: str,
    *,
    partitions: int,
    replication_factor: int,
    factor_property: str,
    configs: Mapping[str, str],
) -> None:
    """Returns when the cluster knows the topic. Raises ConnectError for what a person has to change."""
    try:
        client.create_topic(name, partitions=partitions, replication_factor=replication_factor, configs=configs)
    except BrokerError as refusal:
        remedy = _REMEDIES.get(refusal.code)
        if remedy is None:
            raise
        raise ConnectError(f"{refusal}; {remedy.format(factor=factor_property)}") from refusal
    _wait_until_visible(client, name)


def _wait_until_visible(client: WireClient, name: str) -> None:
    deadline = time.monotonic() + _VISIBLE_TIMEOUT_S
    while name not in client.metadata([name]).topics:
        if time.monotonic() > deadline:
            raise UnknownTopic(f"topic '{name}' was created, but no broker knows it")
        time.sleep(_PAUSE_S)
