from __future__ import annotations

from pathlib import Path

import pytest

from penstock.connect.connector import ConnectError
from penstock.connect.herder.standalone import (
    ConnectorFile,
    create_from_files,
    read_connector_file,
    standalone_herder,
)
from penstock.connect.herder.worker_herder import WorkerSettings
from tests.unit.connect.herder.fakes import FakePlugins, FakeRunner, eventually


def written(directory: Path, text: str) -> Path:
    path = directory / "connector.file"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name=a\ntasks.max=1\n", ConnectorFile("a", {"name": "a", "tasks.max": "1"})),
        ('{"name": "a", "tasks.max": 1}', ConnectorFile("a", {"name": "a", "tasks.max": "1"})),
        ('{"name": "a", "config": {"x": true}}', ConnectorFile("a", {"x": "true"})),
        (
            '{"name": "a", "config": {"x": "y"}, "initial_state": "stopped"}',
            ConnectorFile("a", {"x": "y"}, "STOPPED"),
        ),
    ],
)
def test_every_form_of_a_connector_file(tmp_path: Path, text: str, expected: ConnectorFile) -> None:
    assert read_connector_file(written(tmp_path, text)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name=a\nx=\\u00", "line 2"),
        ("tasks.max=1", "the property 'name' is missing"),
        ("[]", "expected a JSON object"),
        ('{"config": {}}', "the field 'name' is missing"),
        ('{"name": "a", "x": {}}', "property 'x' must be a text"),
        ('{"name": "a", "config": {}, "initial_state": "FOO"}', "initial_state=FOO: expected one of"),
    ],
)
def test_mistakes_name_the_file(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConnectError, match=rf"connector\.file[:,] {message}"):
        read_connector_file(written(tmp_path, text))
    with pytest.raises(ConnectError, match=r"absent: the connector file cannot be read"):
        read_connector_file(tmp_path / "absent")


def test_connectors_of_files_run() -> None:
    runner = FakeRunner()
    herder = standalone_herder(WorkerSettings("localhost:8083", "4.3.1"), runner, FakePlugins())
    herder.start()
    create_from_files(herder, [ConnectorFile("a", {"connector.class": "Sink"})])
    eventually(lambda: runner.running == {"a"})
    with pytest.raises(ConnectError, match="connector 'b': Connector configuration is invalid"):
        create_from_files(herder, [ConnectorFile("b", {"connector.class": "Sink", "invalid": "wrong"})])
    herder.stop()
