"""A cluster of Kafka Connect becomes ours, and goes back: the same topics, the same group, the same connectors."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.connect.herder.distributed import DistributedSettings
from penstock.connect.storage import offset_records
from penstock.connect.storage.json_values import KeyValue
from penstock.connect.storage.offset_records import OffsetRecord
from penstock.connect.storage.topic_table import TopicTable
from penstock.testing import Broker
from penstock.testing.apache_kafka import free_ports
from penstock.testing.java import JavaMissingError
from tests.conftest import optional_part_missing
from tests.integration.connect.workers import ConnectCluster, state_of, worker_id_of
from tests.kafka_applications.java_programs import JavaProgram, application_jars, write_properties
from tests.unit.connect.herder.fakes import eventually

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]

PATIENCE_S = 90


class KafkaWorker:
    """Of Kafka Connect 4.3, by its REST API."""

    def __init__(self, cluster: ConnectCluster, directory: Path) -> None:
        (self._port,) = free_ports(1)
        directory.mkdir()
        properties = {
            **cluster.properties,
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "500",
            "listeners": f"http://127.0.0.1:{self._port}",
            "exactly.once.source.support": "enabled",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "plugin.discovery": "service_load",
            "scheduled.rebalance.max.delay.ms": "0",
            "offset.flush.interval.ms": "300",
        }
        file = write_properties(directory / "worker.properties", properties)
        self.program = JavaProgram(directory, "org.apache.kafka.connect.cli.ConnectDistributed", [str(file)], [])

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                content = answer.read()
                return answer.status, json.loads(content) if content else None
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.read()
        except OSError:
            return 0, None

    def until(self, method: str, path: str, body: Any, is_so: Callable[[int, Any], bool]) -> Any:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            code, content = self.ask(method, path, body)
            if is_so(code, content):
                return content
            assert code not in (400, 500), content
            assert time.monotonic() < deadline, f"{path}: {code} {content}\n{self.program.output[-4000:]}"
            assert self.program.is_running(), self.program.output[-4000:]
            time.sleep(0.2)

    def await_state(self, name: str, state: str, tasks: list[str]) -> None:
        def is_so(code: int, content: Any) -> bool:
            found = [content["connector"]["state"], *(t["state"] for t in content["tasks"])] if code == 200 else []
            return found == [state, *tasks]

        self.until("GET", f"/connectors/{name}/status", None, is_so)


def test_topics_of_kafka_connect_are_ours_and_go_back(broker: Broker, tmp_path: Path) -> None:
    try:
        application_jars()
    except JavaMissingError as missing:
        optional_part_missing(str(missing))
    lines = tmp_path / "lines.txt"
    lines.write_text("a\nb\nc\n")
    source = {"connector.class": "FileStreamSource", "file": str(lines), "topic": "lines", "tasks.max": "1"}
    sink = {"connector.class": "FileStreamSink", "file": str(tmp_path / "out"), "topics": "lines", "tasks.max": "2"}
    with ConnectCluster(broker.bootstrap_servers, tmp_path) as cluster:
        kafka = KafkaWorker(cluster, tmp_path / "kafka")
        with kafka.program:
            kafka.program.start()
            kafka.until("GET", "/", None, lambda code, _: code == 200)
            for name, config, state in (
                ("source", source, "RUNNING"),
                ("paused", sink, "RUNNING"),
                ("stopped", sink, "STOPPED"),
                ("deleted", sink, "RUNNING"),
            ):
                body = {"name": name, "config": config, "initial_state": state}
                kafka.until("POST", "/connectors", body, lambda code, _: code == 201)
            kafka.await_state("source", "RUNNING", ["RUNNING"])
            kafka.await_state("paused", "RUNNING", ["RUNNING", "RUNNING"])
            kafka.await_state("stopped", "STOPPED", [])
            kafka.until("PUT", "/connectors/paused/pause", None, lambda code, _: code == 202)
            kafka.await_state("paused", "PAUSED", ["PAUSED", "PAUSED"])
            kafka.until("DELETE", "/connectors/deleted", None, lambda code, _: code == 204)
            kafka.until("GET", "/connectors/source/topics", None, lambda _, found: found["source"]["topics"])
            kafka.until("GET", "/connectors/source/offsets", None, lambda _, found: found["offsets"])
            task_configs = kafka.ask("GET", "/connectors/source/tasks")[1]

            # The two kinds of workers cannot be one group; ours owns nothing until Kafka's are gone.
            herder, runner = cluster.worker("ours:8083")
            assert set(herder.connectors()) == {"source", "paused", "stopped"}
            assert herder.connector("source").config == {**source, "name": "source"}
            assert herder.task_configs("source") == tuple(each["config"] for each in task_configs)
            assert [task.state for task in herder.status("paused").tasks] == ["PAUSED", "PAUSED"]
            assert state_of(herder, "stopped") == "STOPPED"
            assert herder.status("source").version == "4.3.1"
            assert herder.topics("source") == ["lines"]
            assert offsets_of(cluster) == {("source", str(lines)): {"position": 6}}
            assert herder._ownership.is_rebalancing
            assert runner.starts == []
            kafka.program.kill()

        eventually(lambda: runner.running == {"source"}, PATIENCE_S)
        assert runner.fenced == [("source", 1)], "Kafka's task is fenced, as its record of the task count asks"
        eventually(lambda: worker_id_of(herder, "paused") == "ours:8083")
        herder.put_config("source", {**source, "batch.size": "7"})
        eventually(lambda: len(runner.starts) == 2)
        # Its status has details, which Kafka's worker must skip.
        herder.create("ours", {**sink, "file": str(tmp_path / "ours"), "tasks.max": "1", "retry": "yes"})
        eventually(lambda: state_of(herder, "ours") == "RESTARTING" and herder.status("ours").details["attempt"] == 1)
        herder.set_target_state("paused", "STOPPED")
        herder.set_target_state("stopped", "PAUSED")
        eventually(lambda: runner.running == {"source", "ours"})
        eventually(lambda: state_of(herder, "paused") == "STOPPED")
        eventually(lambda: state_of(herder, "stopped") == "PAUSED")
        cluster.stop(herder)

        back = KafkaWorker(cluster, tmp_path / "back")
        with back.program:
            back.program.start()
            found = back.until("GET", "/connectors?expand=info", None, lambda code, _: code == 200)
            assert set(found) == {"source", "paused", "stopped", "ours"}
            assert found["source"]["info"]["config"] == {**source, "batch.size": "7", "name": "source"}
            back.await_state("source", "RUNNING", ["RUNNING"])
            back.await_state("ours", "RUNNING", ["RUNNING"])
            back.await_state("paused", "STOPPED", [])
            back.await_state("stopped", "PAUSED", [])
            with lines.open("a") as file:
                file.write("d\n")
            eventually(lambda: (tmp_path / "ours").read_text() == "a\nb\nc\nd\n", PATIENCE_S)


def offsets_of(cluster: ConnectCluster) -> dict[tuple[str, str], Any]:
    found: list[KeyValue] = []
    settings = DistributedSettings.parse(cluster.properties)
    table = TopicTable(settings.client, settings.offsets)
    table.start(found.extend)
    table.stop()
    records = [offset_records.decode(key, value) for key, value in found]
    assert all(isinstance(record, OffsetRecord) for record in records)
    return {(each.connector, (each.partition or {})["filename"]): each.offset for each in records if each is not None}
