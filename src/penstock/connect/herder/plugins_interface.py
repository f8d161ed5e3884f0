"""What a herder needs to know of plugins, configurations and their secrets. `connect/plugins.py` has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from penstock.connect.herder.herder import ConnectorType, Plugin


class Plugins(Protocol):
    def list_plugins(self, *, connectors_only: bool) -> Sequence[Plugin]: ...

    def plugin_config(self, plugin: str) -> Sequence[Mapping[str, Any]]:
        """Raises ConnectRestError (404) for an unknown plugin."""
        ...

    def validate(self, plugin: str, config: Mapping[str, str]) -> Mapping[str, Any]:
        """Kafka Connect's answer: `name`, `error_count`, `groups`, `configs`. Raises ConnectRestError."""
        ...

    def connector_type(self, config: Mapping[str, str]) -> ConnectorType:
        """`unknown` if the class is."""
        ...

    def connector_version(self, config: Mapping[str, str]) -> str | None: ...

    def resolve(self, config: Mapping[str, str]) -> Mapping[str, str]:
        """With references to secrets replaced. Raises ConfigException."""
        ...
