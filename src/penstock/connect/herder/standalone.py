"""A standalone worker: one process, with its connectors from files. It remembers their offsets, and nothing else.

The composition root of a standalone herder, and the files: properties as Java reads them, or JSON in one of the forms
that Kafka Connect takes.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from penstock.connect.connector import ConnectError
from penstock.connect.herder.herder import ConnectRestError, TargetState
from penstock.connect.herder.ownership import SoleOwnership
from penstock.connect.herder.plugins_interface import Plugins
from penstock.connect.herder.worker_herder import WorkerHerder, WorkerSettings
from penstock.connect.runtime.runner import Runner
from penstock.connect.storage.table import MemoryTable
from penstock.core.properties import PropertiesError, parse_properties

_log = logging.getLogger(__name__)
_INITIAL_STATES: Final[Mapping[str, TargetState]] = {"RUNNING": "STARTED", "PAUSED": "PAUSED", "STOPPED": "STOPPED"}


@dataclass(frozen=True, slots=True)
class ConnectorFile:
    name: str
    config: Mapping[str, str]
    target: TargetState = "STARTED"


def read_connector_file(path: Path) -> ConnectorFile:
    """Properties, a JSON object of properties, or the body of `POST /connectors`. Raises ConnectError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConnectError(f"{path}: the connector file cannot be read: {error}") from error
    try:
        content = json.loads(text)
    except ValueError:
        return _of_properties(path, _properties(path, text))
    if not isinstance(content, dict):
        raise ConnectError(f"{path}: expected a JSON object with the properties of a connector")
    if isinstance(content.get("config"), dict):
        return _of_request(path, content)
    return _of_properties(path, _texts(path, content))


def _properties(path: Path, text: str) -> dict[str, str]:
    try:
        return {entry.key: entry.value for entry in parse_properties(text)}
    except PropertiesError as mistake:
        raise ConnectError(f"{path}, {mistake}") from mistake


def _of_properties(path: Path, config: Mapping[str, str]) -> ConnectorFile:
    if not config.get("name"):
        raise ConnectError(f"{path}: the property 'name' is missing, which names the connector")
    return ConnectorFile(config["name"], config)


def _of_request(path: Path, content: Mapping[str, Any]) -> ConnectorFile:
    config = _texts(path, content["config"])
    name = content.get("name") or config.get("name")
    if not isinstance(name, str):
        raise ConnectError(f"{path}: the field 'name' is missing, which names the connector")
    state = str(content.get("initial_state") or "RUNNING").upper()
    if state not in _INITIAL_STATES:
        raise ConnectError(f"{path}: initial_state={state}: expected one of {', '.join(_INITIAL_STATES)}")
    return ConnectorFile(name, config, _INITIAL_STATES[state])


def _texts(path: Path, config: Mapping[str, Any]) -> dict[str, str]:
    for name, value in config.items():
        if isinstance(value, dict | list):
            raise ConnectError(f"{path}: property '{name}' must be a text, a number or a boolean")
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in config.items()}


def standalone_herder(worker: WorkerSettings, runner: Runner, plugins: Plugins) -> WorkerHerder:
    return WorkerHerder(worker, MemoryTable(), MemoryTable(), SoleOwnership(), runner, plugins)


def create_from_files(herder: WorkerHerder, files: Sequence[ConnectorFile]) -> None:
    """After `start`. Raises ConnectError for the first connector that cannot be created."""
    for file in files:
        try:
            herder.create(file.name, file.config, file.target)
        except ConnectRestError as error:
            raise ConnectError(f"connector '{file.name}': {error}") from error
        _log.info("created connector %s", file.name)
