"""Where our answers may differ from Kafka Connect's, each with its reason. Everything else must be equal.

`differences` brings both answers into a form without what is excused here, and names each field that is left.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tests.connect_differential.rest.script import Answer

OTHER_STATUS: Final[Mapping[str, tuple[int, int, str]]] = {
    "tasks-config": (404, 200, "Kafka 4.0 removed the path (KIP-970); tools of 3.x still ask for it"),
    "a name with a slash in the path": (400, 404, "Jetty refuses %2F; ours decodes it, so such names can be used"),
    "delete with a percent sign": (400, 204, "Jetty refuses %25; ours decodes it, so such names can be used"),
}
"""Step: Kafka's status, ours, why. Bodies are not compared."""

BODY_IS_OURS: Final[Mapping[str, str]] = {
    "options of connectors": "the order of methods is that of a hash table",
    "tasks-config of unknown": "see tasks-config: ours names the connector, Kafka has no such path",
    "alter offsets: a word for a position": "the connector's own words",
    "logger root": "the level that the process was started with",
    "loggers": "names of classes against names of modules",
    "validate: nothing but a class": "FileStreamSource reads no standard input here: `file` is required",
    "validate: null in JSON": "FileStreamSource reads no standard input here: `file` is required",
}

OUR_PROPERTIES: Final = frozenset({"guarantee", "format"})
"""Properties of ours, which Kafka's connectors do not have."""
OUR_GROUPS: Final = frozenset({"Delivery"})

_JAVA_TEXTS: Final = re.compile(
    r"Cannot (invoke|deserialize|construct)|Unexpected (character|end-of-input)|Unrecognized (token|field)"
)
"""Jackson and Java word these; the status is the same."""
_REGEX_REASON: Final = re.compile(r"(Invalid regex:).*", re.DOTALL)
"""Java's and Python's words for what is wrong with an expression."""
_NULL_REGEX: Final = re.compile(r"Invalid regex: Cannot invoke")
"""A NullPointerException that Kafka adds to the error that a required property is missing."""
_AVAILABLE: Final = re.compile(r"(available connectors are:).*", re.DOTALL)
_WRAPPED: Final = "org.apache.kafka.connect.errors.ConnectException: "
_OF_A_WORKER: Final = frozenset({"worker_id", "version", "commit", "kafka_cluster_id", "last_modified"})
_OVERRIDE: Final = re.compile(r"(producer|consumer|admin)\.override\.")
"""Definitions of client settings are those of Kafka's clients; ours are checked when the connector starts."""


_IN_THE_TESTS_WORKER: Final = re.compile(r"org\.apache\.kafka\.connect\.(?!mirror\.)")
"""Kafka's worker of this test has the plugins of Kafka without MirrorMaker's."""


def differences(step: str, kafka: Answer, ours: Answer) -> list[str]:
    if step in OTHER_STATUS:
        expected = OTHER_STATUS[step][:2]
        found = (kafka.status, ours.status)
        return [] if found == expected else [f"{step}: status {found}, the named difference was {expected}"]
    if kafka.status != ours.status:
        return [f"{step}: status {kafka.status} and {ours.status}: {ours.body}"]
    if step in BODY_IS_OURS:
        return []
    found_differences = [
        f"{step}: {each}" for each in _compared("", _normal(step, kafka.body), _normal(step, ours.body))
    ]
    # Jersey sends errors of routing without a content type, although they are JSON.
    if kafka.content_type is not None and kafka.content_type != ours.content_type:
        found_differences.append(f"{step}: content type {kafka.content_type} and {ours.content_type}")
    if ("location" in kafka.headers) != ("location" in ours.headers):
        found_differences.append(f"{step}: Location {kafka.headers.get('location')} and {ours.headers.get('location')}")
    elif "location" in kafka.headers and _path(kafka) != _path(ours):
        found_differences.append(f"{step}: Location {_path(kafka)} and {_path(ours)}")
    return found_differences


def _path(answer: Answer) -> str:
    return answer.headers["location"].split("/", 3)[3]


def _compared(place: str, kafka: Any, ours: Any) -> list[str]:
    if isinstance(kafka, dict) and isinstance(ours, dict):
        found = []
        for name in sorted(kafka.keys() | ours.keys()):
            if name not in kafka or name not in ours:
                found.append(f"{place}.{name} only in {'Kafka' if name in kafka else 'ours'}")
            else:
                found += _compared(f"{place}.{name}", kafka[name], ours[name])
        return found
    return [] if kafka == ours else [f"{place}: {kafka!r} and {ours!r}"]


def _normal(step: str, body: Any) -> Any:
    if isinstance(body, dict) and "configs" in body:
        return _normal_validation(body)
    if isinstance(body, dict) and set(body) == {"error_code", "message"}:
        return _normal_error(body)
    if step == "status when stopped":
        # Kafka's worker may write the status of a task late, when the connector has none any more.
        return _without_worker({**body, "tasks": []})
    if step.startswith("plugins"):
        return _normal_plugins(body)
    if step.startswith("plugin config"):
        return {each["name"]: _normal_definition(each) for each in body if each["name"] not in OUR_PROPERTIES}
    if isinstance(body, list) and all(isinstance(each, str) for each in body):
        return sorted(body)  # connectors, topics and loggers come from hash tables
    return _without_worker(body)


def _without_worker(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: "..." if name in _OF_A_WORKER else _without_worker(each)
            for name, each in value.items()
            if name != "task.class"  # a Java class; tasks of Spark jobs have none
        }
    return [_without_worker(each) for each in value] if isinstance(value, list) else value


def _normal_error(body: Mapping[str, Any]) -> dict[str, Any]:
    message = body["message"]
    if body["error_code"] == 500 and (_JAVA_TEXTS.match(message) or not message.startswith(("org.", "Part", "The "))):
        message = "unreadable"
    return {"error_code": body["error_code"], "message": _normal_text(message)}


def _normal_text(text: str) -> str:
    return _AVAILABLE.sub(r"\1", _REGEX_REASON.sub(r"\1", text.replace(_WRAPPED, "")))


def _normal_plugins(plugins: list[dict[str, Any]]) -> Any:
    """Ours has more; Kafka's must all be there, in Kafka's order."""
    kafka = [(each["type"], each["class"]) for each in plugins if _IN_THE_TESTS_WORKER.match(each["class"])]
    assert all(each["version"] for each in plugins)
    return kafka


def _normal_validation(body: Mapping[str, Any]) -> dict[str, Any]:
    configs = [each for each in body["configs"] if each["value"]["name"] not in OUR_PROPERTIES]
    values = {each["value"]["name"]: _normal_value(each["value"]) for each in configs}
    return {
        "name": body["name"],
        "groups": sorted(set(body["groups"]) - OUR_GROUPS),
        "order": [name for name in values if ".converter." not in name],  # converters' come from a hash table
        "error_count": sum(len(value["errors"]) for value in values.values()),
        "values": values,
        "definitions": {
            each["value"]["name"]: each["definition"] and _normal_definition(each["definition"])
            for each in configs
            if not _OVERRIDE.match(each["value"]["name"])
        },
    }


def _normal_value(value: Mapping[str, Any]) -> dict[str, Any]:
    normal = dict(value)
    normal["errors"] = [_normal_text(each) for each in value["errors"] if not _NULL_REGEX.search(each)]
    if value["name"].endswith("plugin.version"):
        normal["value"] = value["value"] is not None
        normal["recommended_values"] = len(value["recommended_values"])
    normal["recommended_values"] = _of_kafka(normal["recommended_values"])
    return normal


def _of_kafka(values: Any) -> Any:
    """Recommended classes: ours has more transforms and converters."""
    return [each for each in values if each.startswith("org.apache.")] if isinstance(values, list) else values


def _normal_definition(definition: Mapping[str, Any]) -> dict[str, Any]:
    normal = {name: value for name, value in definition.items() if name != "documentation"}
    if normal["name"].endswith("plugin.version"):
        normal["default_value"] = normal["default_value"] is not None
    if normal["name"] == "file":
        del normal["required"]  # standard input is no source here
    return normal
