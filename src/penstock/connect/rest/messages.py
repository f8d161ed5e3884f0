"""Bodies of requests and answers, as Kafka Connect reads and writes them.

Owns JSON in both directions and the form of errors. It must not know which path is answered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from starlette.responses import Response

from penstock.connect.herder.herder import ConnectorInfo, ConnectorStatus, ConnectRestError, TaskState

JSON: Final = "application/json"
_UNREADABLE: Final = HTTPStatus.INTERNAL_SERVER_ERROR
"""Kafka Connect's status for a body that it cannot read; clients know it."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a handler answers. `body` is written as JSON; None: no body."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] | None = None


def json_response(result: Result) -> Response:
    headers = dict(result.headers or {})
    if result.body is None:
        return Response(status_code=result.status, headers=headers)
    content = json.dumps(result.body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return Response(content, result.status, headers, JSON)


def error_response(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    return json_response(Result({"error_code": status, "message": message}, status, headers))


def http_error(status: int, headers: Mapping[str, str] | None = None) -> Response:
    """An error of HTTP itself, worded as Kafka Connect's server does: `HTTP 404 Not Found`."""
    return error_response(status, f"HTTP {status} {HTTPStatus(status).phrase}", headers)


# Requests


def read_json(content: bytes) -> Any:
    if not content.strip():
        raise ConnectRestError(_UNREADABLE, "the request has no body; send a JSON object")
    try:
        return json.loads(content.decode("utf-8"))
    except UnicodeDecodeError as wrong:
        raise ConnectRestError(_UNREADABLE, f"the request's body is no JSON: it is not in UTF-8 ({wrong})") from None
    except RecursionError:
        raise ConnectRestError(_UNREADABLE, "the request's body is no JSON that can be meant: too deep") from None
    except ValueError as wrong:
        raise ConnectRestError(_UNREADABLE, f"the request's body is no JSON: {wrong}") from None


def read_object(content: bytes, known: Sequence[str]) -> dict[str, Any]:
    """An object that has no other fields."""
    body = read_json(content)
    if not isinstance(body, dict):
        raise ConnectRestError(_UNREADABLE, f"expected a JSON object with the fields {', '.join(known)}")
    for name in body:
        if name not in known:
            raise ConnectRestError(_UNREADABLE, f"unknown field '{name}'; known are {', '.join(known)}")
    return body


def read_config(body: Any) -> dict[str, str]:
    """A connector's configuration. Numbers and booleans become text; a property that is null is not set."""
    return {name: value for name, value in read_patch(body).items() if value is not None}


def read_patch(body: Any) -> dict[str, str | None]:
    if not isinstance(body, dict):
        raise ConnectRestError(_UNREADABLE, "the configuration is no JSON object of names and values")
    return {name: _text(name, value) for name, value in body.items()}


def _text(name: str, value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (dict, list)):
        raise ConnectRestError(_UNREADABLE, f"property '{name}': expected a text, found {json.dumps(value)[:80]}")
    return json.dumps(value)


# Answers


def info_json(info: ConnectorInfo) -> dict[str, Any]:
    tasks = [{"connector": connector, "task": task} for connector, task in info.tasks]
    return {"name": info.name, "config": dict(info.config), "tasks": tasks, "type": info.type}


def status_json(status: ConnectorStatus) -> dict[str, Any]:
    connector = {"state": status.state, "worker_id": status.worker_id, "version": status.version}
    return {
        "name": status.name,
        "connector": _with_trace(connector, status.trace),
        "tasks": [task_status_json(task) for task in status.tasks],
        "type": status.type,
    }


def task_status_json(task: TaskState) -> dict[str, Any]:
    state = {"id": task.id, "state": task.state, "worker_id": task.worker_id, "version": task.version}
    return _with_trace(state, task.trace)


def _with_trace(state: dict[str, Any], trace: str | None) -> dict[str, Any]:
    return state if trace is None else {**state, "trace": trace}
