"""One HTTP conversation with a Kafka Connect worker, good and bad requests in a fixed order.

The same steps go to Kafka's own worker and to ours. A step may first wait for a state that the worker reaches in its
own time; everything else is compared as it was answered.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

PATIENCE_S: Final = 60
POLL_S: Final = 0.1
SOURCE_CLASS: Final = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK_CLASS: Final = "org.apache.kafka.connect.file.FileStreamSinkConnector"


@dataclass(frozen=True, slots=True)
class Step:
    """`wait_for`: a connector and the state that it and all of its tasks must have before the request."""

    name: str
    method: str
    path: str
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    wait_for: tuple[str, str] | None = None

    @property
    def content(self) -> bytes | None:
        if self.body is None or isinstance(self.body, bytes):
            return self.body
        return json.dumps(self.body).encode()


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    content_type: str | None
    body: Any
    headers: Mapping[str, str]


def run(url: str, steps: Sequence[Step], *, leaves_tasks: bool = False) -> dict[str, Answer]:
    """`leaves_tasks` is for Kafka's worker: the status of a connector that is stopped while one of its tasks starts may
    show the task for ever. Such a connector is stopped when it has no configurations of tasks."""
    answers = {}
    # Jetty closes connections after some errors; a request of its own connection is never lost.
    limits = httpx.Limits(max_keepalive_connections=0)
    with httpx.Client(base_url=url, timeout=PATIENCE_S, limits=limits) as client:
        for step in steps:
            if step.wait_for is not None:
                wait_until_in_state(client, *step.wait_for, leaves_tasks=leaves_tasks)
            headers = {"Content-Type": "application/json"} if step.content is not None else {}
            headers = {name: value for name, value in {**headers, **step.headers}.items() if value}
            request = client.build_request(step.method, step.path, content=step.content, headers=headers)
            answer = client.send(request)
            assert step.name not in answers, step.name
            answers[step.name] = Answer(answer.status_code, _content_type(answer), _body(answer), dict(answer.headers))
    return answers


def wait_until_in_state(client: httpx.Client, connector: str, state: str, *, leaves_tasks: bool) -> None:
    def reached() -> bool:
        answer = client.get(f"/connectors/{connector}/status")
        if state == "GONE":
            return answer.status_code == 404 and client.get(f"/connectors/{connector}").status_code == 404
        if answer.status_code != 200:
            return False
        status = answer.json()
        if state == "STOPPED" and leaves_tasks:
            configurations = client.get(f"/connectors/{connector}/tasks").json()
            return bool(status["connector"]["state"] == state and configurations == [])
        states = [status["connector"]["state"], *(task["state"] for task in status["tasks"])]
        # A connector that never ran has no tasks yet, nor has a stopped one.
        return set(states) == {state} and (state != "RUNNING" or len(states) == 2)

    wait_until(reached, f"{connector} {state}")


def wait_until(reached: Callable[[], bool], what: str, within_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + within_s
    while not reached():
        assert time.monotonic() < deadline, what
        time.sleep(POLL_S)


def _content_type(answer: httpx.Response) -> str | None:
    return str(answer.headers["content-type"]) if "content-type" in answer.headers else None


def _body(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        return answer.text


def source(**changes: str | None) -> dict[str, str]:
    return _config(
        {"connector.class": "FileStreamSource", "tasks.max": "1", "file": "{file}", "topic": "lines"}, changes
    )


def sink(**changes: str | None) -> dict[str, str]:
    return _config({"connector.class": "FileStreamSink", "tasks.max": "1", "file": "{out}", "topics": "lines"}, changes)


def _config(config: dict[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    merged: dict[str, str | None] = {**config, **{name.replace("__", "."): value for name, value in changes.items()}}
    return {name: value for name, value in merged.items() if value is not None}


def validate(name: str, plugin: str, config: Mapping[str, Any]) -> Step:
    return Step(f"validate: {name}", "PUT", f"/connector-plugins/{plugin}/config/validate", dict(config))


TEXT: Final = {"Content-Type": "text/plain"}

ROOT_AND_PLUGINS: Final = (
    Step("root", "GET", "/"),
    Step("health", "GET", "/health"),
    Step("no such path", "GET", "/nothing"),
    Step("no such path below", "GET", "/connectors/a/nothing"),
    Step("method of the root", "DELETE", "/"),
    Step("method of connectors", "PUT", "/connectors", {}),
    Step("method of a config", "POST", "/connectors/a/config", {}),
    Step("options of connectors", "OPTIONS", "/connectors"),
    Step("head of connectors", "HEAD", "/connectors"),
    Step("no connectors", "GET", "/connectors"),
    Step("trailing slash", "GET", "/connectors/"),
    Step("not acceptable", "GET", "/connectors", headers={"Accept": "text/html"}),
    Step("plugins", "GET", "/connector-plugins"),
    Step("plugins of all kinds", "GET", "/connector-plugins?connectorsOnly=false"),
    Step("plugins, a word that is no boolean", "GET", "/connector-plugins?connectorsOnly=maybe"),
    Step("plugin config", "GET", "/connector-plugins/FileStreamSink/config"),
    Step("plugin config by class", "GET", f"/connector-plugins/{SOURCE_CLASS}/config"),
    Step("plugin config of a converter", "GET", "/connector-plugins/JsonConverter/config"),
    Step("plugin config of a header converter", "GET", "/connector-plugins/SimpleHeaderConverter/config"),
    Step(
        "plugin config of a transform",
        "GET",
        "/connector-plugins/org.apache.kafka.connect.transforms.Flatten$Key/config",
    ),
    Step("plugin config of an alias with $", "GET", "/connector-plugins/Flatten$Key/config"),
    Step("plugin config of a predicate", "GET", "/connector-plugins/TopicNameMatches/config"),
    Step("plugin config of an unknown one", "GET", "/connector-plugins/Nope/config"),
)

VALIDATION: Final = (
    validate("a good source", "FileStreamSource", source(name="a")),
    validate("a good sink", "FileStreamSink", sink(name="a")),
    validate("by class name", SINK_CLASS, sink(name="a", connector__class=SINK_CLASS)),
    validate("simple name with suffix", "FileStreamSinkConnector", sink(name="a")),
    validate("nothing but a class", "FileStreamSource", {"connector.class": "FileStreamSource"}),
    validate("no class", "FileStreamSource", {"name": "a"}),
    validate("another class", "FileStreamSource", sink(name="a")),
    validate("an unknown class", "Nope", {"connector.class": "Nope"}),
    validate("an unknown class in the path", "Nope", sink()),
    validate("neither topics nor regex", "FileStreamSink", sink(topics=None)),
    validate("topics and regex", "FileStreamSink", sink(topics__regex="l.*")),
    validate("a regex that does not compile", "FileStreamSink", sink(topics=None, topics__regex="l(")),
    validate("an empty topic", "FileStreamSink", sink(topics="a,,b")),
    validate("topics twice", "FileStreamSink", sink(topics="a,a")),
    validate(
        "dead letters to a topic of the sink", "FileStreamSink", sink(errors__deadletterqueue__topic__name="lines")
    ),
    validate(
        "dead letters to a topic of the regex",
        "FileStreamSink",
        sink(topics=None, topics__regex="l.*", errors__deadletterqueue__topic__name="lines"),
    ),
    validate("tasks.max is a word", "FileStreamSource", source(name="a", tasks__max="many")),
    validate("tasks.max is zero", "FileStreamSource", source(name="a", tasks__max="0")),
    validate("a number in JSON", "FileStreamSource", {**source(name="a"), "tasks.max": 1}),
    validate("null in JSON", "FileStreamSource", {**source(name="a"), "file": None}),
    validate("a list in JSON", "FileStreamSource", {**source(name="a"), "transforms": ["a"]}),
    validate(
        "errors properties",
        "FileStreamSource",
        source(errors__tolerance="some", errors__retry__timeout="x", errors__log__enable="yes"),
    ),
    validate(
        "errors properties of a sink",
        "FileStreamSink",
        sink(errors__deadletterqueue__topic__replication__factor="99999", errors__tolerance="ALL"),
    ),
    validate("config.action.reload", "FileStreamSource", source(config__action__reload="later")),
    validate(
        "exactly once",
        "FileStreamSource",
        source(name="a", exactly__once__support="required", transaction__boundary="connector"),
    ),
    validate(
        "exactly once, unknown words",
        "FileStreamSource",
        source(name="a", exactly__once__support="always", transaction__boundary="never"),
    ),
    validate(
        "transaction boundary interval",
        "FileStreamSource",
        source(name="a", transaction__boundary="interval", transaction__boundary__interval__ms="0"),
    ),
    validate("an empty offsets topic", "FileStreamSource", source(name="a", offsets__storage__topic=" ")),
    validate("an unknown converter", "FileStreamSource", source(key__converter="Nope")),
    validate("a converter that is a connector", "FileStreamSource", source(key__converter=SINK_CLASS)),
    validate("an empty converter", "FileStreamSource", source(value__converter="")),
    validate("converter alias", "FileStreamSource", source(value__converter="JsonConverter")),
    validate("converter short alias", "FileStreamSource", source(value__converter="Json")),
    validate(
        "converter properties",
        "FileStreamSource",
        source(
            key__converter="JsonConverter",
            key__converter__schemas__enable="perhaps",
            key__converter__schemas__cache__size="-1",
        ),
    ),
    validate(
        "converter string",
        "FileStreamSource",
        source(value__converter="org.apache.kafka.connect.storage.StringConverter"),
    ),
    validate(
        "converter properties without a converter",
        "FileStreamSource",
        source(value__converter__schemas__enable="perhaps"),
    ),
    validate("header converter", "FileStreamSource", source(header__converter="StringConverter")),
    validate(
        "transforms",
        "FileStreamSource",
        source(
            transforms="a,b",
            transforms__a__type="org.apache.kafka.connect.transforms.InsertField$Value",
            transforms__a__static__field="f",
            transforms__a__static__value="v",
            transforms__b__type="RegexRouter",
            transforms__b__regex="(.*)",
            transforms__b__replacement="x-$1",
        ),
    ),
    validate(
        "transforms without properties", "FileStreamSource", source(transforms="a,b", transforms__a__type="RegexRouter")
    ),
    validate("transforms twice", "FileStreamSource", source(transforms="a,a", transforms__a__type="RegexRouter")),
    validate(
        "transforms with spaces",
        "FileStreamSource",
        source(transforms=" a , b ", transforms__a__type="Filter", transforms__b__type="DropHeaders"),
    ),
    validate("an unknown transform", "FileStreamSource", source(transforms="a", transforms__a__type="Nope")),
    validate(
        "a transform that is a predicate",
        "FileStreamSource",
        source(transforms="a", transforms__a__type="TopicNameMatches"),
    ),
    validate("an empty transform alias", "FileStreamSource", source(transforms="a,,b")),
    validate(
        "predicates",
        "FileStreamSource",
        source(
            transforms="a",
            transforms__a__type="Filter",
            transforms__a__predicate="p",
            transforms__a__negate="true",
            predicates="p",
            predicates__p__type="TopicNameMatches",
            predicates__p__pattern="lines.*",
        ),
    ),
    validate(
        "a predicate that is not declared",
        "FileStreamSource",
        source(transforms="a", transforms__a__type="Filter", transforms__a__predicate="q"),
    ),
    validate(
        "predicates that are wrong",
        "FileStreamSource",
        source(
            predicates="p,q,r",
            predicates__p__type="Filter",
            predicates__q__type="TopicNameMatches",
            predicates__q__pattern="a(",
        ),
    ),
    validate("overrides", "FileStreamSource", source(**{"producer.override.linger.ms": "5"})),
    validate("overrides that nobody knows", "FileStreamSink", sink(**{"consumer.override.foo": "5"})),
    validate("a property that nobody knows", "FileStreamSink", sink(bogus="x")),
    Step("validate: no JSON", "PUT", "/connector-plugins/FileStreamSink/config/validate", b"{no"),
    Step("validate: empty body", "PUT", "/connector-plugins/FileStreamSink/config/validate", b""),
    Step("validate: a list", "PUT", "/connector-plugins/FileStreamSink/config/validate", []),
    Step(
        "validate: no content type",
        "PUT",
        "/connector-plugins/FileStreamSink/config/validate",
        sink(),
        {"Content-Type": ""},
    ),
    Step("validate: POST", "POST", "/connector-plugins/FileStreamSink/config/validate", sink()),
)

MISTAKES: Final = (
    Step("get unknown", "GET", "/connectors/nope"),
    Step("config of unknown", "GET", "/connectors/nope/config"),
    Step("status of unknown", "GET", "/connectors/nope/status"),
    Step("tasks of unknown", "GET", "/connectors/nope/tasks"),
    Step("tasks-config of unknown", "GET", "/connectors/nope/tasks-config"),
    Step("task status of unknown", "GET", "/connectors/nope/tasks/0/status"),
    Step("topics of unknown", "GET", "/connectors/nope/topics"),
    Step("reset topics of unknown", "PUT", "/connectors/nope/topics/reset"),
    Step("offsets of unknown", "GET", "/connectors/nope/offsets"),
    Step(
        "alter offsets of unknown",
        "PATCH",
        "/connectors/nope/offsets",
        {"offsets": [{"partition": {"filename": "x"}, "offset": {"position": 1}}]},
    ),
    Step("reset offsets of unknown", "DELETE", "/connectors/nope/offsets"),
    Step("pause unknown", "PUT", "/connectors/nope/pause"),
    Step("resume unknown", "PUT", "/connectors/nope/resume"),
    Step("stop unknown", "PUT", "/connectors/nope/stop"),
    Step("restart unknown", "POST", "/connectors/nope/restart"),
    Step("restart unknown with tasks", "POST", "/connectors/nope/restart?includeTasks=true"),
    Step("restart unknown task", "POST", "/connectors/nope/tasks/0/restart"),
    Step("delete unknown", "DELETE", "/connectors/nope"),
    Step("patch unknown", "PATCH", "/connectors/nope/config", {"a": "b"}),
    Step("create: no JSON", "POST", "/connectors", b"{"),
    Step("create: no JSON value", "POST", "/connectors", b'{"name": nul}'),
    Step("create: empty body", "POST", "/connectors", b""),
    Step("create: a list", "POST", "/connectors", []),
    Step("create: a string", "POST", "/connectors", "a"),
    Step("create: plain text", "POST", "/connectors", b"a", TEXT),
    Step("create: empty object", "POST", "/connectors", {}),
    Step("create: no config", "POST", "/connectors", {"name": "a"}),
    Step("create: no name", "POST", "/connectors", {"config": source()}),
    Step("create: name in the config only", "POST", "/connectors", {"config": source(name="by-config")}),
    Step("create: names differ", "POST", "/connectors", {"name": "a", "config": source(name="b")}),
    Step("create: empty name", "POST", "/connectors", {"name": "", "config": source()}),
    Step("create: blank name", "POST", "/connectors", {"name": " ", "config": source()}),
    Step("create: control character", "POST", "/connectors", {"name": "a\tb", "config": source()}),
    Step("create: unknown field", "POST", "/connectors", {"name": "a", "config": source(), "colour": "red"}),
    Step("create: config is a string", "POST", "/connectors", {"name": "a", "config": "x"}),
    Step("create: nested config", "POST", "/connectors", {"name": "a", "config": {"a": {"b": "c"}}}),
    Step("create: no class", "POST", "/connectors", {"name": "a", "config": {"topic": "x"}}),
    Step("create: unknown class", "POST", "/connectors", {"name": "a", "config": {"connector.class": "Nope"}}),
    Step("create: one mistake", "POST", "/connectors", {"name": "a", "config": source(tasks__max="0")}),
    Step("create: two mistakes", "POST", "/connectors", {"name": "a", "config": source(tasks__max="x", topic=None)}),
    Step(
        "create: unknown initial state",
        "POST",
        "/connectors",
        {"name": "a", "config": source(), "initial_state": "SLEEPING"},
    ),
    Step("put: two mistakes", "PUT", "/connectors/a/config", source(tasks__max="x")),
    Step("put: names differ", "PUT", "/connectors/a/config", source(name="b")),
    Step("put: no JSON", "PUT", "/connectors/a/config", b"{"),
    Step("put: null", "PUT", "/connectors/a/config", b"null"),
)

LIFE: Final = (
    Step("create", "POST", "/connectors", {"name": "a", "config": source()}),
    Step("create again", "POST", "/connectors", {"name": "a", "config": source()}, wait_for=("a", "RUNNING")),
    Step("put with an invalid change", "PUT", "/connectors/a/config", source(tasks__max="-1")),
    Step("list", "GET", "/connectors"),
    Step("list with status", "GET", "/connectors?expand=status"),
    Step("list with info", "GET", "/connectors?expand=info"),
    Step("list with both", "GET", "/connectors?expand=info&expand=status"),
    Step("list with nonsense", "GET", "/connectors?expand=nonsense"),
    Step("get", "GET", "/connectors/a"),
    Step("get config", "GET", "/connectors/a/config"),
    Step("status", "GET", "/connectors/a/status"),
    Step("tasks", "GET", "/connectors/a/tasks"),
    Step("tasks-config", "GET", "/connectors/a/tasks-config"),
    Step("task status", "GET", "/connectors/a/tasks/0/status"),
    Step("task status of no such task", "GET", "/connectors/a/tasks/7/status"),
    Step("task status of a word", "GET", "/connectors/a/tasks/first/status"),
    Step("restart only failed", "POST", "/connectors/a/restart?onlyFailed=true"),
    Step("restart only failed with tasks", "POST", "/connectors/a/restart?includeTasks=true&onlyFailed=true"),
    Step("task restart of no such task", "POST", "/connectors/a/tasks/7/restart"),
    Step("task restart", "POST", "/connectors/a/tasks/0/restart"),
    Step("topics", "GET", "/connectors/a/topics", wait_for=("a", "RUNNING")),
    Step("reset topics", "PUT", "/connectors/a/topics/reset"),
    Step("topics after reset", "GET", "/connectors/a/topics"),
    Step(
        "alter offsets while running",
        "PATCH",
        "/connectors/a/offsets",
        {"offsets": [{"partition": {"filename": "x"}, "offset": {"position": 1}}]},
    ),
    Step("reset offsets while running", "DELETE", "/connectors/a/offsets"),
    Step("restart", "POST", "/connectors/a/restart"),
    Step("restart with tasks", "POST", "/connectors/a/restart?includeTasks=true", wait_for=("a", "RUNNING")),
    Step("restart with a word", "POST", "/connectors/a/restart?includeTasks=maybe"),
    Step("patch", "PATCH", "/connectors/a/config", {"batch.size": "77", "colour": None}, wait_for=("a", "RUNNING")),
    Step("patch removes", "PATCH", "/connectors/a/config", {"batch.size": None}, wait_for=("a", "RUNNING")),
    Step("patch with a mistake", "PATCH", "/connectors/a/config", {"tasks.max": "x"}),
    Step("put", "PUT", "/connectors/a/config", source(**{"batch.size": "99"})),
    Step(
        "put with the name", "PUT", "/connectors/a/config", source(name="a", tasks__max="1"), wait_for=("a", "RUNNING")
    ),
    Step("pause", "PUT", "/connectors/a/pause", wait_for=("a", "RUNNING")),
    Step("status when paused", "GET", "/connectors/a/status", wait_for=("a", "PAUSED")),
    Step(
        "alter offsets while paused",
        "PATCH",
        "/connectors/a/offsets",
        {"offsets": [{"partition": {"filename": "x"}, "offset": {"position": 1}}]},
    ),
    Step("pause again", "PUT", "/connectors/a/pause"),
    Step("resume", "PUT", "/connectors/a/resume"),
    Step("stop", "PUT", "/connectors/a/stop", wait_for=("a", "RUNNING")),
    Step("status when stopped", "GET", "/connectors/a/status", wait_for=("a", "STOPPED")),
    Step("tasks when stopped", "GET", "/connectors/a/tasks"),
    Step("offsets, none yet", "GET", "/connectors/a/offsets"),
    Step("alter offsets: no body", "PATCH", "/connectors/a/offsets", b""),
    Step("alter offsets: no offsets", "PATCH", "/connectors/a/offsets", {}),
    Step("alter offsets: empty", "PATCH", "/connectors/a/offsets", {"offsets": []}),
    Step("alter offsets: no list", "PATCH", "/connectors/a/offsets", {"offsets": {}}),
    Step("alter offsets: unknown field", "PATCH", "/connectors/a/offsets", {"offsets": [{"partitions": {}}]}),
    Step("alter offsets: no partition", "PATCH", "/connectors/a/offsets", {"offsets": [{"offset": {"position": 1}}]}),
    Step(
        "alter offsets: refused by the connector",
        "PATCH",
        "/connectors/a/offsets",
        {"offsets": [{"partition": {"path": "x"}, "offset": {"position": 1}}]},
    ),
    Step(
        "alter offsets: a word for a position",
        "PATCH",
        "/connectors/a/offsets",
        {"offsets": [{"partition": {"filename": "{file}"}, "offset": {"position": "far"}}]},
    ),
    Step(
        "alter offsets",
        "PATCH",
        "/connectors/a/offsets",
        {"offsets": [{"partition": {"filename": "{file}"}, "offset": {"position": 3}}]},
    ),
    Step("offsets", "GET", "/connectors/a/offsets"),
    Step("reset offsets", "DELETE", "/connectors/a/offsets"),
    Step("offsets after reset", "GET", "/connectors/a/offsets"),
    Step("create stopped", "POST", "/connectors", {"name": "b", "config": sink(), "initial_state": "STOPPED"}),
    Step(
        "create paused",
        "POST",
        "/connectors",
        {"name": "c", "config": sink(topics="other"), "initial_state": "paused"},
        wait_for=("b", "STOPPED"),
    ),
    Step(
        "alter offsets of a sink: wrong fields",
        "PATCH",
        "/connectors/b/offsets",
        {"offsets": [{"partition": {"topic": "lines"}, "offset": {"kafka_offset": 1}}]},
    ),
    Step(
        "alter offsets of a sink: wrong offset",
        "PATCH",
        "/connectors/b/offsets",
        {"offsets": [{"partition": {"kafka_topic": "lines", "kafka_partition": 0}, "offset": {"kafka_offset": "x"}}]},
    ),
    Step(
        "alter offsets of a sink: no such field",
        "PATCH",
        "/connectors/b/offsets",
        {"offsets": [{"partition": {"kafka_topic": "lines", "kafka_partition": 0}, "offset": {"position": 1}}]},
    ),
    Step(
        "alter offsets of a sink",
        "PATCH",
        "/connectors/b/offsets",
        {"offsets": [{"partition": {"kafka_topic": "lines", "kafka_partition": 0}, "offset": {"kafka_offset": 0}}]},
    ),
    Step("offsets of a sink", "GET", "/connectors/b/offsets"),
    Step("reset offsets of a sink", "DELETE", "/connectors/b/offsets"),
    Step(
        "a name with special characters",
        "PUT",
        "/connectors/weird%20%C3%A4%3F%23+name/config",
        sink(topics="t"),
        wait_for=("c", "PAUSED"),
    ),
    Step(
        "get the special name",
        "GET",
        "/connectors/weird%20%C3%A4%3F%23+name",
        wait_for=("weird%20%C3%A4%3F%23+name", "RUNNING"),
    ),
    Step("a name with a slash in the path", "GET", "/connectors/a%2Fb"),
    Step("create with a percent sign", "POST", "/connectors", {"name": "50% off", "config": sink(topics="t")}),
    Step("delete with a percent sign", "DELETE", "/connectors/50%25%20off"),
    Step("delete the special name", "DELETE", "/connectors/weird%20%C3%A4%3F%23+name"),
    Step("delete", "DELETE", "/connectors/a"),
    Step("get deleted", "GET", "/connectors/a", wait_for=("a", "GONE")),
    Step("delete again", "DELETE", "/connectors/a"),
    Step("delete b", "DELETE", "/connectors/b"),
    Step("delete c", "DELETE", "/connectors/c"),
)

LOGGERS: Final = (
    Step("loggers", "GET", "/admin/loggers"),
    Step("logger root", "GET", "/admin/loggers/root"),
    Step("logger unknown", "GET", "/admin/loggers/no.such.logger"),
    Step("set logger", "PUT", "/admin/loggers/org.example.one", {"level": "debug"}),
    Step("get logger", "GET", "/admin/loggers/org.example.one"),
    Step("set logger of the cluster", "PUT", "/admin/loggers/org.example?scope=cluster", {"level": "WARN"}),
    Step("set logger, unknown scope", "PUT", "/admin/loggers/org.example?scope=galaxy", {"level": "WARN"}),
    Step("set logger, unknown level", "PUT", "/admin/loggers/org.example", {"level": "LOUD"}),
    Step("set logger, no level", "PUT", "/admin/loggers/org.example", {}),
    Step("set logger, no JSON", "PUT", "/admin/loggers/org.example", b"x"),
)

STEPS: Final = (*ROOT_AND_PLUGINS, *VALIDATION, *MISTAKES, *LIFE, *LOGGERS)
