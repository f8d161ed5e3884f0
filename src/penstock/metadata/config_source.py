"""The sources of a setting, and their order of precedence.

Must not know what a name means: that is in the tables of definitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum


class ConfigSource(IntEnum):
    """The numbers are those of DescribeConfigs' `config_source`."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


@dataclass(frozen=True, slots=True)
class BrokerLayers:
    """The settings of a broker as text, by source: at its start, for all brokers at run time, for itself at run time.

    The maps hold explicitly set names only, with values that were accepted.
    """

    static: Mapping[str, str] = field(default_factory=dict)
    cluster_wide: Mapping[str, str] = field(default_factory=dict)
    per_broker: Mapping[str, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[tuple[ConfigSource, Mapping[str, str]]]:
        """In the order of precedence."""
        yield ConfigSource.DYNAMIC_BROKER, self.per_broker
        yield ConfigSource.DYNAMIC_DEFAULT_BROKER, self.cluster_wide
        yield ConfigSource.STATIC_BROKER, self.static

    def get(self, name: str) -> str | None:
        for _, values in self:
            if name in values:
                return values[name]
        return None
