"""The records of the config topic, as Kafka Connect 4.3 writes them: what connectors there should be.

Owns keys and values of `config.storage.topic`. It must not know topics, clients or what follows from a record.

Keys are text, values JSON without a schema. A record that Kafka Connect would ignore decodes to None: another version
may have written it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from penstock.connect.herder.herder import TargetState
from penstock.connect.storage.json_values import KeyValue, decode_object, encode_json

_CONNECTOR: Final = "connector-"
_TASK: Final = "task-"
_COMMIT: Final = "commit-"
_TARGET_STATE: Final = "target-state-"
_TASK_COUNT: Final = "tasks-fencing-"
_RESTART: Final = "restart-connector-"
_LOGGER: Final = "logger-cluster-"
_SESSION_KEY: Final = "session-key"
_TARGET_STATES: Final[Mapping[str, TargetState]] = {"STARTED": "STARTED", "PAUSED": "PAUSED", "STOPPED": "STOPPED"}


@dataclass(frozen=True, slots=True)
class ConnectorConfig:
    """None in place of properties: the connector was deleted."""

    name: str
    properties: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class TaskConfig:
    """Takes effect with the commit that follows it."""

    name: str
    task: int
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TasksCommit:
    name: str
    task_count: int


@dataclass(frozen=True, slots=True)
class TargetStateChange:
    """None: forgotten with its connector; without a record the target is STARTED."""

    name: str
    state: TargetState | None


@dataclass(frozen=True, slots=True)
class TaskCount:
    """The producers of this many tasks of a source connector exist, and the next start has to fence them (KIP-618)."""

    name: str
    task_count: int


@dataclass(frozen=True, slots=True)
class RestartRequest:
    """Holds for the moment at which it is read, not for workers that start later (KIP-745)."""

    name: str
    include_tasks: bool
    only_failed: bool


@dataclass(frozen=True, slots=True)
class LoggerLevel:
    """For all workers that run now (KIP-976)."""

    logger: str
    level: str


@dataclass(frozen=True, slots=True)
class SessionKey:
    """With which Kafka's workers sign requests to each other (KIP-507). Ours send none, and leave the key alone."""

    key: str
    algorithm: str
    created_ms: int


ConfigRecord: TypeAlias = (
    ConnectorConfig
    | TaskConfig
    | TasksCommit
    | TargetStateChange
    | TaskCount
    | RestartRequest
    | LoggerLevel
    | SessionKey
)


def encode(record: ConfigRecord) -> KeyValue:
    match record:
        case ConnectorConfig(name, properties):
            return _pair(_CONNECTOR + name, None if properties is None else {"properties": dict(properties)})
        case TaskConfig(name, task, properties):
            return _pair(f"{_TASK}{name}-{task}", {"properties": dict(properties)})
        case TasksCommit(name, count):
            return _pair(_COMMIT + name, {"tasks": count})
        case TargetStateChange(name, None):
            return _pair(_TARGET_STATE + name, None)
        case TargetStateChange(name, state):
            # Workers before KIP-875 know no STOPPED, and read `state`.
            return _pair(_TARGET_STATE + name, {"state": "PAUSED" if state == "STOPPED" else state, "state.v2": state})
        case TaskCount(name, count):
            return _pair(_TASK_COUNT + name, {"task-count": count})
        case RestartRequest(name, include_tasks, only_failed):
            return _pair(_RESTART + name, {"include-tasks": include_tasks, "only-failed": only_failed})
        case LoggerLevel(logger, level):
            return _pair(_LOGGER + logger, {"level": level})
        case SessionKey(key, algorithm, created_ms):
            return _pair(_SESSION_KEY, {"key": key, "algorithm": algorithm, "creation-timestamp": created_ms})


def decode(key: bytes | None, value: bytes | None) -> ConfigRecord | None:
    if key is None:
        return None
    text = key.decode("utf-8", "replace")
    content = decode_object(value)
    if value is None:
        return _decode_tombstone(text)
    if content is None:
        return None
    # `target-state-` and `tasks-fencing-` begin with no other prefix, nor do the others.
    for prefix, read in _READERS.items():
        if text.startswith(prefix):
            return read(text.removeprefix(prefix), content)
    return _session_key(content) if text == _SESSION_KEY else None


def _decode_tombstone(key: str) -> ConfigRecord | None:
    if key.startswith(_CONNECTOR):
        return ConnectorConfig(key.removeprefix(_CONNECTOR), None)
    if key.startswith(_TARGET_STATE):
        return TargetStateChange(key.removeprefix(_TARGET_STATE), None)
    return None


def _connector(name: str, content: Mapping[str, Any]) -> ConfigRecord | None:
    properties = _properties(content)
    return None if properties is None else ConnectorConfig(name, properties)


def _task(rest: str, content: Mapping[str, Any]) -> ConfigRecord | None:
    name, _, number = rest.rpartition("-")
    properties = _properties(content)
    return TaskConfig(name, int(number), properties) if name and number.isdecimal() and properties is not None else None


def _commit(name: str, content: Mapping[str, Any]) -> ConfigRecord | None:
    count = _count(content.get("tasks"))
    return None if count is None else TasksCommit(name, count)


def _target_state(name: str, content: Mapping[str, Any]) -> ConfigRecord | None:
    state = _TARGET_STATES.get(str(content.get("state.v2", content.get("state"))))
    return None if state is None else TargetStateChange(name, state)


def _task_count(name: str, content: Mapping[str, Any]) -> ConfigRecord | None:
    count = _count(content.get("task-count"))
    return None if count is None else TaskCount(name, count)


def _restart(name: str, content: Mapping[str, Any]) -> ConfigRecord | None:
    return RestartRequest(name, content.get("include-tasks") is True, content.get("only-failed") is True)


def _logger(name: str, content: Mapping[str, Any]) -> ConfigRecord | None:
    level = content.get("level")
    return LoggerLevel(name, level) if isinstance(level, str) else None


def _session_key(content: Mapping[str, Any]) -> ConfigRecord | None:
    key, algorithm, created_ms = (content.get(name) for name in ("key", "algorithm", "creation-timestamp"))
    if not isinstance(key, str) or not isinstance(algorithm, str) or not isinstance(created_ms, int):
        return None
    return SessionKey(key, algorithm, created_ms)


_READERS: Final = {
    _CONNECTOR: _connector,
    _TASK: _task,
    _COMMIT: _commit,
    _TARGET_STATE: _target_state,
    _TASK_COUNT: _task_count,
    _RESTART: _restart,
    _LOGGER: _logger,
}


def _properties(content: Mapping[str, Any]) -> dict[str, str] | None:
    found = content.get("properties")
    if not isinstance(found, dict):
        return None
    # Kafka Connect allows null, which stands for a property that is not set.
    return {name: str(value) for name, value in found.items() if value is not None}


def _count(found: Any) -> int | None:
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None


def _pair(key: str, value: Mapping[str, Any] | None) -> KeyValue:
    return key.encode(), None if value is None else encode_json(value)
