"""The records of the status topic, as Kafka Connect 4.3 writes them: how connectors and tasks are, and their topics.

Owns keys and values of `status.storage.topic`. It must not know topics, clients or who runs a connector.

`details` is ours: attempts and progress, for which Kafka Connect has no place. Its workers skip fields that they do not
know, so a status with details is readable for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from penstock.connect.runtime.runner import State
from penstock.connect.storage.json_values import KeyValue, decode_object, encode_json

_CONNECTOR: Final = "status-connector-"
_TASK: Final = "status-task-"
_TOPIC: Final = "status-topic-"
_TOPIC_SEPARATOR: Final = ":connector-"


@dataclass(frozen=True, slots=True)
class Status:
    """Of a connector (`task` is None) or of a task. DESTROYED is a tombstone."""

    name: str
    task: int | None
    state: State
    worker_id: str = ""
    generation: int = 0
    trace: str | None = None
    version: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicUse:
    """A connector reads or writes a topic (KIP-558). `discovered_ms` is None when the set was reset."""

    name: str
    topic: str
    task: int = 0
    discovered_ms: int | None = None


StatusRecord: TypeAlias = Status | TopicUse


def encode(record: StatusRecord) -> KeyValue:
    match record:
        case TopicUse(name, topic, _task, None):
            return f"{_TOPIC}{topic}{_TOPIC_SEPARATOR}{name}".encode(), None
        case TopicUse(name, topic, task, discovered_ms):
            content = {"name": topic, "connector": name, "task": task, "discoverTimestamp": discovered_ms}
            return f"{_TOPIC}{topic}{_TOPIC_SEPARATOR}{name}".encode(), encode_json({"topic": content})
        case Status(name, task, state):
            key = f"{_CONNECTOR}{name}" if task is None else f"{_TASK}{name}-{task}"
            return key.encode(), None if state is State.DESTROYED else _status_value(record)


def _status_value(status: Status) -> bytes:
    value: dict[str, Any] = {
        "state": status.state.value,
        "trace": status.trace,
        "worker_id": status.worker_id,
        "generation": status.generation,
        "version": status.version,
    }
    if status.details:
        value["details"] = dict(status.details)
    return encode_json(value)


def decode(key: bytes | None, value: bytes | None) -> StatusRecord | None:
    if key is None:
        return None
    text = key.decode("utf-8", "replace")
    if text.startswith(_CONNECTOR):
        return _status(text.removeprefix(_CONNECTOR), None, value)
    if text.startswith(_TASK):
        name, _, number = text.removeprefix(_TASK).rpartition("-")
        return _status(name, int(number), value) if name and number.isdecimal() else None
    if text.startswith(_TOPIC):
        # A topic's name has no colon.
        topic, _, name = text.removeprefix(_TOPIC).partition(_TOPIC_SEPARATOR)
        return _topic_use(name, topic, value) if topic and name else None
    return None


def _status(name: str, task: int | None, value: bytes | None) -> StatusRecord | None:
    if value is None:
        return Status(name, task, State.DESTROYED)
    content = decode_object(value)
    if content is None or content.get("state") not in State.__members__:
        return None
    details = content.get("details")
    return Status(
        name,
        task,
        State[content["state"]],
        worker_id=str(content.get("worker_id", "")),
        generation=int(content.get("generation", 0)),
        trace=content.get("trace"),
        version=content.get("version"),
        details=details if isinstance(details, dict) else {},
    )


def _topic_use(name: str, topic: str, value: bytes | None) -> StatusRecord | None:
    if value is None:
        return TopicUse(name, topic)
    content = (decode_object(value) or {}).get("topic")
    if not isinstance(content, dict):
        return None
    return TopicUse(name, topic, int(content.get("task", 0)), int(content.get("discoverTimestamp", 0)))
