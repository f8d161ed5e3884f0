"""A cluster that cannot run a pipeline says so in words: it has no workers, or it is no Spark master at all."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from penstock.core.exit_codes import ExitCode
from penstock.testing import Broker
from tests.pipeline.penstock_commands import PATIENCE_S, penstock, running
from tests.scale.standalone_cluster import StandaloneCluster

pytestmark = [pytest.mark.scale, pytest.mark.timeout(600)]

COPY = 'name: copy\nsource: {topic: numbers, schema: "id BIGINT"}\nsink: {topic: copies}\n'


def test_a_cluster_without_workers_is_told_while_the_pipeline_waits(tmp_path: Path) -> None:
    (tmp_path / "copy.yaml").write_text(COPY)
    (tmp_path / "cluster").mkdir()
    with Broker() as broker, StandaloneCluster(tmp_path / "cluster", workers=0) as cluster:
        address = ["--bootstrap-server", broker.bootstrap_servers]
        assert penstock(tmp_path, "produce", *address, "numbers", stdin='{"id": 1}\n').returncode == 0
        with running(tmp_path, "run", "--json", *address, "--master", cluster.url, "copy.yaml") as process:
            assert "has given this pipeline no executor" in process.wait_for("waiting")["reason"]
            process.process.send_signal(signal.SIGKILL)
            process.process.wait(PATIENCE_S)


def test_a_port_of_something_else_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "copy.yaml").write_text(COPY)
    with Broker() as broker:
        address = ["--bootstrap-server", broker.bootstrap_servers]
        assert penstock(tmp_path, "produce", *address, "numbers", stdin='{"id": 1}\n').returncode == 0
        master = f"spark://{broker.bootstrap_servers}"
        ran = penstock(tmp_path, "run", "--once", *address, "--master", master, "copy.yaml")
        assert ran.returncode == ExitCode.ENGINE_LOST
        # Java itself announces a module that Spark's launcher asks for.
        [line] = [line for line in ran.stderr.splitlines() if not line.startswith("WARNING: Using incubator modules")]
        assert line.startswith(f"penstock: copy.yaml: --master: Spark did not start on {master}: ")
        assert "An error occurred while calling" not in line
