"""REST over a herder in memory: what the comparison with Kafka's worker cannot show, and the paths that are ours."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.connect.config.connector_config import WorkerDefaults
from penstock.connect.config.definition import ConfigException
from penstock.connect.config.providers import ConfigProviders
from penstock.connect.herder.herder import ConnectRestError
from penstock.connect.plugins import Plugins
from penstock.connect.rest import routing
from penstock.connect.rest.application import build_application, routes_of
from penstock.connect.rest.server import serving
from penstock.connect.worker_plugins import WorkerPlugins
from tests.unit.connect.fake_herder import FakeHerder

JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
SINK = {"connector.class": "FileStreamSink", "topics": "lines", "file": "/tmp/lines"}
PLUGINS = WorkerPlugins(Plugins(), WorkerDefaults(JSON_CONVERTER, JSON_CONVERTER), ConfigProviders({}))


class Letters:
    def __init__(self) -> None:
        self.replayed: list[Any] = []

    def list(self, connector: str, *, limit: int, after: str | None) -> Sequence[Mapping[str, Any]]:
        if connector != "a":
            raise ConnectRestError(404, f"Connector {connector} not found")
        start = 0 if after is None else int(after) + 1
        return [{"id": str(number), "reason": "no"} for number in range(start, min(start + limit, 5))]

    def replay(self, connector: str, ids: Sequence[str] | None, *, max_attempts: int | None) -> Mapping[str, Any]:
        self.replayed.append((ids, max_attempts))
        return {"replayed": 5 if ids is None else len(ids)}


class Pipes:
    def list(self) -> Sequence[Mapping[str, Any]]:
        return [{"name": "revenue", "state": "RUNNING"}]

    def stop(self, name: str) -> Mapping[str, Any]:
        return {"name": name, "state": "STOPPED"}

    def restart(self, name: str) -> Mapping[str, Any]:
        return {"name": name, "state": "RUNNING"}


@pytest.fixture
def herder() -> FakeHerder:
    return FakeHerder(PLUGINS)


@pytest.fixture
def letters() -> Letters:
    return Letters()


class Served:
    """One server for all tests; each has an application of its own behind it."""

    def __init__(self) -> None:
        self.application: ASGIApp | None = None
        self.address = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self.application is not None
        await self.application(scope, receive, send)

    def client_of(self, herder: FakeHerder, config: Mapping[str, str] | None = None, **more: Any) -> httpx.Client:
        self.application = build_application(herder, config or {}, warnings=PLUGINS.warnings, **more)
        return httpx.Client(base_url=self.address, timeout=30)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    served = Served()
    with serving(served, {"listeners": "http://127.0.0.1:0"}) as server:
        served.address = server.address
        yield served


@pytest.fixture
def client(served: Served, herder: FakeHerder, letters: Letters) -> Iterator[httpx.Client]:
    with served.client_of(herder, dead_letters=letters, pipelines=Pipes()) as client:
        yield client


def test_a_connector_from_its_creation_to_its_end(client: httpx.Client, herder: FakeHerder) -> None:
    created = client.post("/connectors", json={"name": "a", "config": SINK})
    assert created.status_code == 201
    assert created.headers["location"] == f"{client.base_url}/connectors/a"
    assert created.json() == {"name": "a", "config": {**SINK, "name": "a"}, "tasks": [], "type": "sink"}
    herder.fail("a", "it broke")
    status = client.get("/connectors/a/status").json()
    assert (status["connector"]["state"], status["connector"]["trace"]) == ("FAILED", "it broke")
    assert status["tasks"][0]["trace"] == "it broke"
    restarted = client.post("/connectors/a/restart?includeTasks=true&onlyFailed=true")
    assert (restarted.status_code, restarted.json()["connector"]["state"]) == (202, "RESTARTING")
    assert client.get("/connectors/a/tasks-config").json() == {"a-0": {**SINK, "name": "a"}}
    assert client.delete("/connectors/a").status_code == 204
    assert client.get("/connectors").json() == []


def test_what_no_part_reads_is_named_in_a_header(client: httpx.Client) -> None:
    created = client.put("/connectors/a/config", json={**SINK, "topcis": "x"})
    assert created.headers["penstock-warning"] == "topcis: unknown property; did you mean 'topics'?"
    patched = client.patch("/connectors/a/config", json={"topcis": None})
    assert "penstock-warning" not in patched.headers


@pytest.mark.parametrize("name", ["a/b", "50% off", "ä ö", "a?b#c", "..", "x" * 300, "日本"])
def test_every_name_can_be_used_in_a_path(client: httpx.Client, name: str) -> None:
    from urllib.parse import quote

    created = client.post("/connectors", json={"name": name, "config": SINK})
    assert created.status_code == 201
    path = created.headers["location"].removeprefix(str(client.base_url))
    assert path == f"/connectors/{quote(name, safe='+')}" or name == ".."
    if name != "..":  # clients remove it from paths themselves
        assert client.get(path).json()["name"] == name
        assert client.delete(path).status_code == 204


def test_bodies_are_bounded(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "BODY_BYTES_MAX", 1000)
    answer = client.post("/connectors", json={"name": "a", "config": {"x": "y" * 1000}})
    assert (answer.status_code, answer.json()["error_code"]) == (413, 413)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "the request has no body"),
        (b"\xff\xfe", "not in UTF-8"),
        (b'{"name": "a", "config": {"x": {}}}', "property 'x': expected a text"),
        (b'{"name": 7, "config": {}}', "'name' is no text"),
        (b'{"nmae": "a"}', "unknown field 'nmae'; known are name, config, initial_state"),
        (b"[" * 100_000, "too deep"),
    ],
)
def test_a_body_that_cannot_be_read_says_why(client: httpx.Client, content: bytes, reason: str) -> None:
    answer = client.post("/connectors", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 500  # Kafka Connect's
    assert reason in answer.json()["message"]


def test_numbers_and_booleans_of_a_configuration_become_text(client: httpx.Client) -> None:
    config = {**SINK, "tasks.max": 1, "errors.log.enable": True, "file": "/x"}
    created = client.post("/connectors", json={"name": "a", "config": config})
    assert created.json()["config"] == {
        **SINK,
        "tasks.max": "1",
        "errors.log.enable": "true",
        "file": "/x",
        "name": "a",
    }


def test_a_failure_of_the_herder_is_one_answer_and_the_server_goes_on(
    client: httpx.Client, herder: FakeHerder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> Sequence[str]:
        raise RuntimeError("the topic is gone")

    monkeypatch.setattr(herder, "connectors", broken)
    answer = client.get("/connectors")
    assert (answer.status_code, answer.json()) == (500, {"error_code": 500, "message": "the topic is gone"})
    assert "GET /connectors failed" in caplog.text
    assert client.get("/").status_code == 200


def test_a_herder_that_does_not_answer_in_time(
    client: httpx.Client, herder: FakeHerder, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    monkeypatch.setattr(routing, "REQUEST_TIMEOUT_S", 0.05)
    monkeypatch.setattr(herder, "connectors", lambda: release.wait(30) and [])
    answer = client.get("/connectors")
    release.set()
    assert answer.status_code == 500
    assert answer.json()["message"].startswith("Request timed out")


def test_health_of_a_worker_that_starts(client: httpx.Client, herder: FakeHerder) -> None:
    herder.state_of_worker = (503, "starting", "Worker is still starting up.")
    answer = client.get("/health")
    assert (answer.status_code, answer.json()["status"]) == (503, "starting")


# Ours


def test_progress_shows_what_the_runner_reports(client: httpx.Client, herder: FakeHerder) -> None:
    client.put("/connectors/a/config", json=SINK)
    herder.running["a"].details = {"records": 7, "lag": 3}
    assert client.get("/penstock/v1/connectors/a/progress").json() == {
        "name": "a",
        "state": "RUNNING",
        "records": 7,
        "lag": 3,
        "tasks": [{"id": 0, "state": "RUNNING", "records": 7, "lag": 3}],
    }
    assert client.get("/penstock/v1/connectors/b/progress").status_code == 404


def test_dead_letters_are_listed_in_pages_and_replayed(client: httpx.Client, letters: Letters) -> None:
    path = "/penstock/v1/connectors/a/dead-letters"
    assert [each["id"] for each in client.get(f"{path}?limit=3").json()["dead_letters"]] == ["0", "1", "2"]
    assert [each["id"] for each in client.get(f"{path}?limit=3&after=2").json()["dead_letters"]] == ["3", "4"]
    assert client.get(f"{path}?limit=0").status_code == 400
    assert client.post(f"{path}/replay", json={"ids": ["1", "2"]}).json() == {"replayed": 2}
    assert client.post(f"{path}/replay", json={"all": True, "max_attempts": 0}).json() == {"replayed": 5}
    mistakes: list[dict[str, Any]] = [{}, {"ids": []}, {"ids": ["1"], "all": True}, {"ids": [1]}, {"all": False}]
    mistakes += [{"all": True, "max_attempts": each} for each in (-1, True, "5")]
    for wrong in mistakes:
        assert client.post(f"{path}/replay", json=wrong).status_code == 400
    assert letters.replayed == [(["1", "2"], None), (None, 0)]


def test_pipelines_stand_beside_connectors(client: httpx.Client) -> None:
    assert client.get("/penstock/v1/pipelines").json() == {"pipelines": [{"name": "revenue", "state": "RUNNING"}]}
    assert client.get("/penstock/v1/pipelines/revenue").json()["state"] == "RUNNING"
    assert client.put("/penstock/v1/pipelines/revenue/stop").json()["state"] == "STOPPED"
    assert client.post("/penstock/v1/pipelines/revenue/restart").json()["state"] == "RUNNING"
    assert client.get("/penstock/v1/pipelines/nope").status_code == 404


def test_a_worker_without_dead_letters_and_pipelines_has_no_such_paths(served: Served, herder: FakeHerder) -> None:
    with served.client_of(herder) as client:
        assert client.get("/penstock/v1/pipelines").json()["message"] == "HTTP 404 Not Found"


def test_the_openapi_document_has_every_route(client: httpx.Client, herder: FakeHerder) -> None:
    document = client.get("/penstock/v1/openapi.json").json()
    found = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    routes = routes_of(herder, dead_letters=Letters(), pipelines=Pipes())
    assert found == {(route.method, route.path) for route in routes}
    ids = [operation["operationId"] for methods in document["paths"].values() for operation in methods.values()]
    assert len(ids) == len(set(ids))


# Authentication and CORS


def test_users_and_tokens(served: Served, herder: FakeHerder, tmp_path: Path) -> None:
    passwords, tokens = tmp_path / "passwords", tmp_path / "tokens"
    passwords.write_text("alice=s3cret\nbob=p:w\n")
    tokens.write_text("# of the deployment\nt0ken\n")
    config = {"penstock.rest.basic.auth.file": str(passwords), "penstock.rest.bearer.token.file": str(tokens)}
    with served.client_of(herder, config) as client:
        refused = client.get("/connectors")
        assert (refused.status_code, refused.text) == (401, "User cannot access the resource.")
        assert refused.headers["www-authenticate"].startswith("Basic realm=")
        for user in (("alice", "s3cret"), ("bob", "p:w")):
            assert client.get("/connectors", auth=user).status_code == 200
        for user in (("alice", "wrong"), ("alice", ""), ("eve", ""), ("", "")):
            assert client.get("/connectors", auth=user).status_code == 401
        for header, status in (
            ("Bearer t0ken", 200),
            ("Bearer x", 401),
            ("Bearer", 401),
            ("Basic !!", 401),
            ("x", 401),
        ):
            assert client.get("/connectors", headers={"Authorization": header}).status_code == status
        passwords.write_text("alice=changed\n")
        assert client.get("/connectors", auth=("alice", "changed")).status_code == 200
        assert client.get("/connectors", auth=("alice", "s3cret")).status_code == 401


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"penstock.rest.basic.auth.file": "/nowhere"}, "cannot read /nowhere"),
        ({"rest.extension.classes": "com.example.Extension"}, "Invalid value com.example.Extension"),
        ({"rest.extension.classes": "BasicAuthSecurityRestExtension"}, "set penstock.rest.basic.auth.file"),
    ],
)
def test_wrong_properties_of_authentication_are_found_at_the_start(
    herder: FakeHerder, config: dict[str, str], reason: str
) -> None:
    with pytest.raises(ConfigException, match=reason):
        build_application(herder, config)


def test_browsers_of_other_origins(served: Served, herder: FakeHerder) -> None:
    config = {"access.control.allow.origin": "https://console.example.com", "access.control.allow.methods": "GET,PUT"}
    origin = {"Origin": "https://console.example.com"}
    with served.client_of(herder, config) as client:
        assert client.get("/connectors", headers=origin).headers["access-control-allow-origin"] == origin["Origin"]
        other = client.get("/connectors", headers={"Origin": "https://evil.example.com"})
        assert "access-control-allow-origin" not in other.headers
        preflight = client.options("/connectors", headers={**origin, "Access-Control-Request-Method": "PUT"})
        assert preflight.status_code == 200
        assert preflight.headers["access-control-allow-methods"] == "GET, PUT"
    with served.client_of(herder) as client:
        assert "access-control-allow-origin" not in client.get("/connectors", headers=origin).headers
