"""The properties that only distributed workers have, as Kafka Connect 4.3 defines them.

Owns the definition. `worker_config.py` checks a worker's file with it, and `herder/distributed.py` reads its settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from penstock.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance
from penstock.connect.config.parsing import at_least, between, non_empty, one_of

STORAGE_PARTITIONS: Final = {"offset": 25, "status": 5}
"""The config topic has one partition."""


def _minus_one_or_more(name: str, value: Any) -> None:
    if value is not None and value != -1:
        at_least(1)(name, value)


def _required(name: str, doc: str) -> ConfigKey:
    return ConfigKey(name, ConfigType.STRING, importance=Importance.HIGH, doc=doc, validator=non_empty)


def _int(name: str, default: str, doc: str, lowest: int) -> ConfigKey:
    return ConfigKey(name, ConfigType.INT, default, Importance.LOW, doc, validator=at_least(lowest))


def _storage(kind: str) -> Sequence[ConfigKey]:
    doc = "Of that topic; -1: the broker's."
    keys = [
        _required(f"{kind}.storage.topic", f"The topic of {kind}s."),
        ConfigKey(
            f"{kind}.storage.replication.factor", ConfigType.SHORT, "3", Importance.LOW, doc,
            validator=_minus_one_or_more,
        ),
    ]  # fmt: skip
    if kind in STORAGE_PARTITIONS:
        partitions = str(STORAGE_PARTITIONS[kind])
        keys.append(
            ConfigKey(
                f"{kind}.storage.partitions", ConfigType.INT, partitions, Importance.LOW, doc,
                validator=_minus_one_or_more,
            )
        )  # fmt: skip
    return keys


DISTRIBUTED: Final = ConfigDef(
    (
        _required("group.id", "The name of the Connect cluster: the consumer group of its workers."),
        *_storage("config"),
        *_storage("offset"),
        *_storage("status"),
        _int("session.timeout.ms", "10000", "After how long a silent worker is taken for dead.", 1),
        _int("heartbeat.interval.ms", "3000", "How often a worker says that it lives.", 1),
        _int("rebalance.timeout.ms", "60000", "How long workers may take to join.", 1),
        ConfigKey(
            "scheduled.rebalance.max.delay.ms", ConfigType.INT, "300000", Importance.LOW,
            "How long the connectors of a worker that left wait for it.", validator=between(0, 2**31 - 1),
        ),
        _int("worker.sync.timeout.ms", "3000", "How long a worker waits for the config topic.", 0),
        ConfigKey(
            "exactly.once.source.support", ConfigType.STRING, "disabled", Importance.LOW,
            "enabled: sources may deliver exactly once.",
            validator=one_of("DISABLED", "PREPARING", "ENABLED", ignore_case=True),
        ),
    )
)  # fmt: skip
