"""`penstock up --rest`: pipelines and connectors of one process, on one Spark, behind one REST API."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import httpx
import psutil
import pytest

from penstock.core.exit_codes import ExitCode
from tests.pipeline.connect.worker_command import becomes_true
from tests.pipeline.penstock_commands import PATIENCE_S, penstock, running

pytestmark = [pytest.mark.kills, pytest.mark.timeout(300)]

LINES = 1000
COPY = """\
name: copy
source:
  topic: lines
  schema: id BIGINT
transform: SELECT id * 2 AS doubled FROM source
sink: {files: doubled, format: json}
"""
READER = {
    "connector.class": "FileStreamSource",
    "topic": "lines",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
}


def test_a_connector_feeds_a_pipeline_of_the_same_engine(tmp_path: Path) -> None:
    assert penstock(tmp_path, "topic", "create", "lines").returncode == 0
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "copy.yaml").write_text(COPY)
    incoming = tmp_path / "in.txt"
    incoming.write_text("".join(f'{{"id": {number}}}\n' for number in range(LINES)))

    def doubled() -> Counter[int]:
        files = (tmp_path / "doubled").glob("*.json")
        return Counter(json.loads(line)["doubled"] for file in files for line in file.read_text().splitlines())

    words = ("up", "--listen", "127.0.0.1:0", "--rest", "127.0.0.1:0", "--json", "pipelines")
    with running(tmp_path, *words) as engine:
        url = engine.wait_for("connect")["rest"]
        engine.wait_for("ready")
        with httpx.Client(base_url=url, timeout=PATIENCE_S) as client:
            listed = client.get("/penstock/v1/pipelines").json()["pipelines"]
            assert [each["name"] for each in listed] == ["copy"]
            created = client.post("/connectors", json={"name": "reader", "config": {**READER, "file": str(incoming)}})
            assert created.status_code == 201, created.text
            becomes_true(lambda: sum(doubled().values()) >= LINES, "the pipeline has written all lines")
            assert client.get("/connectors/reader/status").json()["connector"]["state"] == "RUNNING"
            children = psutil.Process(engine.process.pid).children(recursive=True)
            assert len([each for each in children if each.name() == "java"]) == 1, "one Spark runs both"

            # A connector that goes leaves the pipelines alone, and the other way round.
            assert client.delete("/connectors/reader").status_code == 204
            assert client.put("/penstock/v1/pipelines/copy/stop").status_code == 200
            assert client.get("/penstock/v1/pipelines/none").status_code == 404
            assert client.get("/connectors").json() == []
        assert engine.terminate() == ExitCode.OK
        assert engine.process.stderr is not None
        assert engine.process.stderr.read() == ""
    assert doubled() == Counter(2 * number for number in range(LINES))
