"""`penstock connector` against the real REST server over a herder in memory."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.main import main
from penstock.connect.config.connector_config import WorkerDefaults
from penstock.connect.config.providers import ConfigProviders
from penstock.connect.plugins import Plugins
from penstock.connect.rest.application import build_application
from penstock.connect.rest.server import serving
from penstock.connect.worker_plugins import WorkerPlugins
from penstock.core.exit_codes import ExitCode
from tests.unit.connect.fake_herder import FakeHerder

JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
SINK = {"connector.class": "FileStreamSink", "topics": "lines", "file": "/tmp/lines"}
PLUGINS = WorkerPlugins(Plugins(), WorkerDefaults(JSON_CONVERTER, JSON_CONVERTER), ConfigProviders({}))
Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def herder() -> FakeHerder:
    return FakeHerder(PLUGINS)


@pytest.fixture(scope="module")
def url(herder: FakeHerder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    users = tmp_path_factory.mktemp("users") / "passwords"
    users.write_text("alice=s3cret\n")
    settings = {"listeners": "http://127.0.0.1:0", "penstock.rest.basic.auth.file": str(users)}
    with serving(build_application(herder, settings, warnings=PLUGINS.warnings), settings) as server:
        yield server.address


@pytest.fixture(autouse=True)
def _worker(url: str, herder: FakeHerder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    herder.running.clear()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_CONNECT_URL", url)
    monkeypatch.setenv("PENSTOCK_CONNECT_USER", "alice:s3cret")
    Path("lines.json").write_text(json.dumps({"name": "lines", "config": SINK}))


def run(capsys: Captured, *words: str) -> tuple[int, str, str]:
    code = main(["connector", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def as_json(capsys: Captured, *words: str) -> Any:
    code, out, err = run(capsys, *words, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_a_connector_from_its_creation_to_its_end(capsys: Captured, herder: FakeHerder) -> None:
    created = run(capsys, "create", "lines.json")
    assert created == (0, "lines is created; see `penstock connector status lines`\n", "")
    _, out, _ = run(capsys, "list")
    assert [line.split() for line in out.splitlines()] == [
        ["NAME", "TYPE", "STATE", "TASKS", "CLASS", "WORKER"],
        ["lines", "sink", "RUNNING", "1/1", "running", "FileStreamSink", "127.0.0.1:8083"],
    ]
    assert as_json(capsys, "list")["lines"]["info"]["config"]["topics"] == "lines"
    for command, state in (("pause", "PAUSED"), ("resume", "RUNNING"), ("stop", "STOPPED")):
        assert run(capsys, command, "lines") == (0, f"lines is to be {state}\n", "")
        assert as_json(capsys, "status", "lines")["connector"]["state"] == state
    assert run(capsys, "delete", "lines") == (0, "lines is deleted\n", "")
    assert not herder.running


def test_a_failed_connector_shows_why_and_restarts(capsys: Captured, herder: FakeHerder) -> None:
    run(capsys, "create", "lines.json")
    assert run(capsys, "restart", "lines", "--only-failed")[1] == "nothing of lines has failed; it is RUNNING\n"
    herder.fail("lines", "No space left\non the device")
    code, out, _ = run(capsys, "status", "lines")
    assert code == ExitCode.FAILURE
    assert out.splitlines()[:3] == [
        "lines: FAILED, sink, on 127.0.0.1:8083",
        "    No space left",
        "    on the device",
    ]
    assert run(capsys, "restart", "lines", "--only-failed")[:2] == (0, "lines restarts\n")
    assert run(capsys, "status", "lines")[0] == 0
    assert run(capsys, "restart", "lines", "--task", "0")[:2] == (0, "task 0 of lines restarts\n")
    assert run(capsys, "restart", "lines", "--task", "7") == (4, "", "penstock: Unknown task: lines-7\n")


def test_offsets_are_shown_set_and_reset(capsys: Captured) -> None:
    run(capsys, "create", "lines.json", "--stopped")
    offsets = {
        "offsets": [{"partition": {"kafka_topic": "lines", "kafka_partition": 0}, "offset": {"kafka_offset": 7}}]
    }
    Path("offsets.json").write_text(json.dumps(offsets))
    assert run(capsys, "offsets", "lines", "--set", "offsets.json")[:2] == (
        0,
        "The offsets for this connector have been altered successfully\n",
    )
    assert as_json(capsys, "offsets", "lines") == offsets
    assert '{"kafka_offset": 7}' in run(capsys, "offsets", "lines")[1]
    assert run(capsys, "offsets", "lines", "--reset")[0] == 0
    assert as_json(capsys, "offsets", "lines") == {"offsets": []}
    run(capsys, "resume", "lines")
    code, _, err = run(capsys, "offsets", "lines", "--reset")
    assert code == ExitCode.FAILURE
    assert "must be in the STOPPED state" in err


def test_a_configuration_is_properties_or_json_from_a_file_or_stdin(
    capsys: Captured, herder: FakeHerder, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("a.properties").write_text("name=a\n" + "".join(f"{key}={value}\n" for key, value in SINK.items()))
    assert run(capsys, "create", "a.properties", "-c", "tasks.max=2")[0] == 0
    assert herder.running["a"].config == {**SINK, "tasks.max": "2", "name": "a"}
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(SINK)))
    assert run(capsys, "create", "-", "--name", "50% off/on")[0] == 0
    assert run(capsys, "status", "50% off/on")[0] == 0
    assert run(capsys, "create", "a.properties", "--update", "-c", "topics=other")[0] == 0
    assert herder.running["a"].config["topics"] == "other"


def test_validate_names_every_mistake_and_what_no_part_reads(capsys: Captured) -> None:
    assert run(capsys, "validate", "lines.json") == (0, "lines.json: lines is valid\n", "")
    wrong = ["-c", "tasks.max=0", "-c", "errors.tolerance=some", "-c", "topic=x"]
    code, out, err = run(capsys, "validate", "lines.json", *wrong)
    assert (code, out) == (ExitCode.FAILURE, "")
    assert err.splitlines() == [
        "penstock: warning: topic: unknown property; did you mean 'topics'?",
        "lines.json: Invalid value 0 for configuration tasks.max: Value must be at least 1",
        "lines.json: Invalid value some for configuration errors.tolerance: String must be one of: none, all",
    ]
    code, _, err = run(capsys, "create", "lines.json", *wrong)
    assert code == ExitCode.FAILURE
    assert err.startswith(
        "penstock: lines.json: Invalid value 0 for configuration tasks.max: Value must be at least 1; "
    )
    assert run(capsys, "create", "lines.json", "-c", "topic=x")[2].startswith("penstock: warning: topic: unknown")


def test_plugins_and_their_properties(capsys: Captured) -> None:
    assert {each["type"] for each in as_json(capsys, "plugins")} <= {"source", "sink"}
    assert "org.apache.kafka.connect.storage.StringConverter" in run(capsys, "plugins", "--all")[1]
    assert "errors.tolerance" in run(capsys, "plugins", "FileStreamSink")[1]
    assert run(capsys, "plugins", "Nope") == (4, "", "penstock: Unknown plugin Nope.\n")


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["status", "linse"], 4, "no connector is called 'linse'; did you mean 'lines'?"),
        (["delete", "zzz"], 4, "no connector is called 'zzz'; `penstock connector list` lists all of them"),
        (["create", "lines.json"], 1, "connector 'lines' exists already; change it with --update"),
        (["create", "nowhere.json"], 2, "nowhere.json: No such file or directory"),
        (["create", "broken.json"], 2, "broken.json: no JSON: "),
        (["create", "nameless.json"], 2, "nameless.json: the connector has no name; add \"name\" or give --name"),
        (["create", "lines.json", "--paused", "--stopped"], 2, "exclude each other"),
        (["validate", "nameless.json", "--name", "x"], 2, "nameless.json: connector.class is missing"),
        (["create", "lines.json", "-c", "connector.class=Nope", "--name", "x"], 1, "which name matches Nope"),
        (["list", "--url", "localhost:8083"], 2, "--url 'localhost:8083': expected http://HOST:PORT"),
        (["list", "--url", "http://127.0.0.1:1"], 3, "start one with `penstock connect`, or name it with --url"),
        (["list", "--user", "alice:wrong"], 23, "refuses the credentials; give --user NAME:PASSWORD or --token"),
        (["list", "--user", "alice"], 2, "--user: expected NAME:PASSWORD"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line_with_the_remedy(words: list[str], code: int, reason: str, capsys: Captured) -> None:
    Path("broken.json").write_text("{")
    Path("nameless.json").write_text("{}")
    run(capsys, "create", "lines.json")
    found, out, err = run(capsys, *words)
    assert (found, out) == (code, "")
    assert err.startswith("penstock: ")
    assert err.count("\n") == 1
    assert reason in err
