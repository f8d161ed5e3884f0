"""`/`, `/health` and `/connectors`: Kafka Connect's resources of connectors, tasks and offsets.

Owns the translation between HTTP and the herder, nothing else: states and rules are the herder's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from penstock.connect.herder.herder import ConnectRestError, Herder, TargetState
from penstock.connect.rest.messages import (
    Result,
    info_json,
    read_config,
    read_json,
    read_object,
    read_patch,
    status_json,
    task_status_json,
)
from penstock.connect.rest.routing import Call, Route

WARNING_HEADER: Final = "Penstock-Warning"
_INITIAL_STATES: Final[Mapping[str, TargetState]] = {"RUNNING": "STARTED", "PAUSED": "PAUSED", "STOPPED": "STOPPED"}

Warnings = Callable[[Mapping[str, str]], Sequence[str]]
"""What a configuration has that no part of it reads."""


class ConnectorsResource:
    def __init__(self, herder: Herder, advertised_url: Callable[[], str | None], warnings: Warnings) -> None:
        self._herder = herder
        self._advertised_url = advertised_url
        self._warnings = warnings

    def routes(self) -> list[Route]:
        connector = "/connectors/{connector}"
        gone: dict[int, str] = {404: "No such connector"}
        refused = {400: "The configuration is invalid"}
        return [
            Route("GET", "/", self.server_info, "Version of the worker and id of its Kafka cluster"),
            Route("GET", "/health", self.health, "Whether the worker can answer requests",
                  answers={200: "Healthy", 503: "Starting or unhealthy"}),
            Route("GET", "/connectors", self.list, "Names of all connectors, or with `expand` what is known of them",
                  query={"expand": "status or info; may be repeated"}),
            Route("POST", "/connectors", self.create, "Create a connector", takes_body=True,
                  answers={201: "Created", 409: "It exists already", **refused}),
            Route("GET", connector, self.get, "A connector's configuration and tasks", answers={200: "OK", **gone}),
            Route("DELETE", connector, self.delete, "Delete a connector", answers={204: "Deleted", **gone}),
            Route("GET", f"{connector}/config", self.get_config, "Its configuration", answers={200: "OK", **gone}),
            Route("PUT", f"{connector}/config", self.put_config, "Create it, or replace its configuration",
                  takes_body=True, answers={200: "Replaced", 201: "Created", **refused}),
            Route("PATCH", f"{connector}/config", self.patch_config,
                  "Change some properties; null removes one", takes_body=True,
                  answers={200: "Changed", **refused, **gone}),
            Route("GET", f"{connector}/status", self.status, "State of the connector and of its tasks",
                  answers={200: "OK", **gone}),
            Route("GET", f"{connector}/tasks", self.tasks, "Its tasks with their configurations",
                  answers={200: "OK", **gone}),
            Route("GET", f"{connector}/tasks-config", self.tasks_config, "Configurations of its tasks, by task",
                  answers={200: "OK", **gone}),
            Route("GET", f"{connector}/tasks/{{task}}/status", self.task_status, "State of a task",
                  answers={200: "OK", 404: "No such task"}),
            Route("POST", f"{connector}/tasks/{{task}}/restart", self.restart_task, "Restart a task",
                  answers={204: "Restarted", 404: "No such task"}),
            Route("GET", f"{connector}/topics", self.topics, "Topics that it has used since it was created or reset"),
            Route("PUT", f"{connector}/topics/reset", self.reset_topics, "Forget the topics that it has used",
                  answers={202: "Accepted"}),
            Route("PUT", f"{connector}/pause", self.pause, "Pause it", answers={202: "Accepted", **gone}),
            Route("PUT", f"{connector}/stop", self.stop, "Stop it and its tasks", answers={204: "Accepted", **gone}),
            Route("PUT", f"{connector}/resume", self.resume, "Resume it", answers={202: "Accepted", **gone}),
            Route("POST", f"{connector}/restart", self.restart, "Restart it",
                  query={"includeTasks": "true: its tasks too", "onlyFailed": "true: only what has failed"},
                  answers={202: "Accepted", 204: "The connector alone restarts", **gone}),
            Route("GET", f"{connector}/offsets", self.offsets, "Its offsets", answers={200: "OK", **gone}),
            Route("PATCH", f"{connector}/offsets", self.alter_offsets, "Change offsets of a stopped connector",
                  takes_body=True, answers={200: "Changed", 400: "It is not stopped, or an offset is wrong", **gone}),
            Route("DELETE", f"{connector}/offsets", self.reset_offsets, "Reset the offsets of a stopped connector",
                  answers={200: "Reset", 400: "It is not stopped", **gone}),
        ]  # fmt: skip

    # The worker

    def server_info(self, _call: Call) -> Result:
        return Result(dict(self._herder.server_info()))

    def health(self, _call: Call) -> Result:
        status, state, message = self._herder.health()
        return Result({"status": state, "message": message}, status)

    # Connectors

    def list(self, call: Call) -> Result:
        names = self._herder.connectors()
        expand = call.query.get("expand")
        if expand is None:
            return Result([*names])
        return Result({name: expanded for name in names if (expanded := self._expanded(name, expand)) is not None})

    def _expanded(self, name: str, expand: Sequence[str]) -> dict[str, Any] | None:
        found: dict[str, Any] = {}
        try:
            for each in expand:
                if each == "status":
                    found["status"] = status_json(self._herder.status(name))
                elif each == "info":
                    found["info"] = info_json(self._herder.connector(name))
        except ConnectRestError as gone:
            if gone.status != 404:
                raise
            return None  # deleted since the names were listed
        return found

    def create(self, call: Call) -> Result:
        body = read_object(call.content, ("name", "config", "initial_state"))
        name = body.get("name")
        if name is not None and not isinstance(name, str):
            raise ConnectRestError(500, "'name' is no text")
        target = _initial_state(body.get("initial_state"))
        name = (name or "").strip()
        config = _named(name, read_config(body.get("config")))
        info = self._herder.create(name, config, target)
        return Result(info_json(info), 201, self._headers(call, name, config, created=True))

    def put_config(self, call: Call) -> Result:
        name = call.names[0]
        config = _named(name, read_config(read_json(call.content)))
        created, info = self._herder.put_config(name, config)
        return Result(info_json(info), 201 if created else 200, self._headers(call, name, config, created=created))

    def patch_config(self, call: Call) -> Result:
        name = call.names[0]
        info = self._herder.patch_config(name, read_patch(read_json(call.content)))
        return Result(info_json(info), headers=self._headers(call, name, info.config, created=False))

    def _headers(self, call: Call, name: str, config: Mapping[str, str], *, created: bool) -> dict[str, str]:
        headers = {}
        if created:
            url = self._advertised_url() or call.url
            headers["Location"] = f"{url.rstrip('/')}/connectors/{quote(name, safe='+')}"
        warnings = self._warnings(config)
        if warnings:
            headers[WARNING_HEADER] = quote(" | ".join(warnings), safe=" '|:;,.()[]{}$=/?")
        return headers

    def get(self, call: Call) -> Result:
        return Result(info_json(self._herder.connector(call.names[0])))

    def get_config(self, call: Call) -> Result:
        return Result(dict(self._herder.connector(call.names[0]).config))

    def delete(self, call: Call) -> Result:
        self._herder.delete(call.names[0])
        return Result(status=204)

    def status(self, call: Call) -> Result:
        return Result(status_json(self._herder.status(call.names[0])))

    # States

    def pause(self, call: Call) -> Result:
        self._herder.set_target_state(call.names[0], "PAUSED")
        return Result(status=202)

    def resume(self, call: Call) -> Result:
        self._herder.set_target_state(call.names[0], "STARTED")
        return Result(status=202)

    def stop(self, call: Call) -> Result:
        self._herder.set_target_state(call.names[0], "STOPPED")
        return Result(status=204)

    def restart(self, call: Call) -> Result:
        include_tasks, only_failed = call.flag("includeTasks"), call.flag("onlyFailed")
        status = self._herder.restart_connector(call.names[0], include_tasks=include_tasks, only_failed=only_failed)
        if not include_tasks and not only_failed:
            # What a restart meant before KIP-745, with its answer.
            return Result(status=204)
        return Result(status_json(status), 202)

    # Tasks

    def tasks(self, call: Call) -> Result:
        name = call.names[0]
        configs = self._herder.task_configs(name)
        return Result(
            [{"id": {"connector": name, "task": task}, "config": dict(config)} for task, config in enumerate(configs)]
        )

    def tasks_config(self, call: Call) -> Result:
        name = call.names[0]
        configs = self._herder.task_configs(name)
        return Result({f"{name}-{task}": dict(config) for task, config in enumerate(configs)})

    def task_status(self, call: Call) -> Result:
        name, task = call.names[0], _task(call.names[1])
        missing = ConnectRestError(404, f"No status found for task {name}-{task}")
        try:
            status = self._herder.status(name)
        except ConnectRestError as refused:
            raise (missing if refused.status == 404 else refused) from None
        state = next((each for each in status.tasks if each.id == task), None)
        if state is None:
            raise missing
        return Result(task_status_json(state))

    def restart_task(self, call: Call) -> Result:
        self._herder.restart_task(call.names[0], _task(call.names[1]))
        return Result(status=204)

    # Topics

    def topics(self, call: Call) -> Result:
        name = call.names[0]
        return Result({name: {"topics": [*self._herder.topics(name)]}})

    def reset_topics(self, call: Call) -> Result:
        self._herder.reset_topics(call.names[0])
        return Result(status=202)

    # Offsets

    def offsets(self, call: Call) -> Result:
        pairs = self._herder.offsets(call.names[0])
        offsets = [
            {"partition": dict(partition), "offset": None if offset is None else dict(offset)}
            for partition, offset in pairs
        ]
        return Result({"offsets": offsets})

    def alter_offsets(self, call: Call) -> Result:
        body = read_object(call.content, ("offsets",))
        listed = body.get("offsets")
        if listed is None or listed == []:
            raise ConnectRestError(400, "Partitions / offsets need to be provided for an alter offsets request")
        if not isinstance(listed, Sequence) or isinstance(listed, str):
            raise ConnectRestError(500, "'offsets' is no list of objects with 'partition' and 'offset'")
        return Result({"message": self._herder.alter_offsets(call.names[0], [_offset(entry) for entry in listed])})

    def reset_offsets(self, call: Call) -> Result:
        return Result({"message": self._herder.reset_offsets(call.names[0])})


def _initial_state(text: Any) -> TargetState:
    if text is None:
        return "STARTED"
    if not isinstance(text, str) or text.upper() not in _INITIAL_STATES:
        raise ConnectRestError(500, f"'initial_state' is {text!r}; expected one of {', '.join(_INITIAL_STATES)}")
    return _INITIAL_STATES[text.upper()]


def _named(name: str, config: dict[str, str]) -> dict[str, str]:
    """The configuration with the connector's name, which it may repeat."""
    own = config.get("name")
    if own is not None and own != name:
        raise ConnectRestError(
            400, f"Connector name configuration ({own}) doesn't match connector name in the URL ({name})"
        )
    return {**config, "name": name}


def _task(text: str) -> int:
    # Beyond Java's int there is no such path in Kafka Connect.
    if not text.lstrip("-").isascii() or not text.lstrip("-").isdigit() or abs(int(text)) >= 1 << 31:
        raise ConnectRestError(404, "HTTP 404 Not Found")
    return int(text)


def _offset(entry: Any) -> tuple[Mapping[str, Any], Mapping[str, Any] | None]:
    if not isinstance(entry, dict):
        raise ConnectRestError(500, "an entry of 'offsets' is no object with 'partition' and 'offset'")
    for name in entry:
        if name not in ("partition", "offset"):
            raise ConnectRestError(500, f"unknown field '{name}' in 'offsets'; known are partition, offset")
    partition, offset = entry.get("partition"), entry.get("offset")
    if not isinstance(partition, dict):
        raise ConnectRestError(500, "Partition objects cannot be null")
    if offset is not None and not isinstance(offset, dict):
        raise ConnectRestError(500, "an 'offset' is neither an object nor null")
    return partition, offset
