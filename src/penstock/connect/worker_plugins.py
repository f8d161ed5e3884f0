"""What a herder and the REST API ask about plugins and configurations, for the properties of one worker.

Owns the connection of the registry of plugins, the check of configurations and the config providers of a worker.
Failures are `ConnectRestError`s with Kafka Connect's status.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.connect.config.answer import Validation
from penstock.connect.config.connector_config import WorkerDefaults
from penstock.connect.config.providers import ConfigProviders
from penstock.connect.config.validation import BadRequest, connector_class, plugin_definitions, validate
from penstock.connect.herder.herder import ConnectorType, ConnectRestError, Plugin
from penstock.connect.plugins import BrokenPlugin, Plugins, UnknownPlugin


class WorkerPlugins:
    """Threads may share it."""

    def __init__(self, plugins: Plugins, defaults: WorkerDefaults, providers: ConfigProviders) -> None:
        self.registry = plugins
        self._defaults = defaults
        self._providers = providers

    def list_plugins(self, *, connectors_only: bool) -> Sequence[Plugin]:
        found = self.registry.listed(connectors_only=connectors_only)
        return [Plugin(each.class_name, each.type, each.version) for each in found]

    def plugin_config(self, plugin: str) -> Sequence[Mapping[str, Any]]:
        try:
            return plugin_definitions(self.registry, plugin)
        except UnknownPlugin:
            raise ConnectRestError(404, f"Unknown plugin {plugin}.") from None
        except BrokenPlugin as broken:
            raise ConnectRestError(500, str(broken)) from None

    def check(self, config: Mapping[str, str]) -> Validation:
        """Raises ConnectRestError (400) if no connector can check the configuration."""
        try:
            return validate(self.registry, config, self._defaults, self._providers.resolve_text)
        except BadRequest as refused:
            raise ConnectRestError(400, str(refused)) from None

    def validate(self, _plugin: str, config: Mapping[str, str]) -> Mapping[str, Any]:
        return self.check(config).as_json()

    def refuse_if_invalid(self, config: Mapping[str, str]) -> None:
        """Raises ConnectRestError (400) with all mistakes."""
        found = self.check(config)
        if found.errors:
            raise ConnectRestError(400, found.message())

    def warnings(self, config: Mapping[str, str]) -> Sequence[str]:
        """What a configuration has that changes nothing; for the answer to whoever posts it."""
        try:
            return validate(
                self.registry, config, self._defaults, self._providers.resolve_text, asks_connector=False
            ).warnings
        except BadRequest:
            return ()

    def connector_type(self, config: Mapping[str, str]) -> ConnectorType:
        try:
            return "source" if connector_class(self.registry, config).type == "source" else "sink"
        except BadRequest:
            return "unknown"

    def connector_version(self, config: Mapping[str, str]) -> str | None:
        try:
            return connector_class(self.registry, config).version
        except BadRequest:
            return None

    def resolve(self, config: Mapping[str, str]) -> Mapping[str, str]:
        """With references to secrets replaced. Raises ConfigException."""
        return self._providers.resolve(config)
