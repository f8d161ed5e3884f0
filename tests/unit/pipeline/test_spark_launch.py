"""What a declaration means for the Spark that is started for it."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from penstock.core.exit_codes import ExitCode
from penstock.pipeline import spark_launch
from penstock.pipeline.declaration.spec import PipelineHead, PipelineSpec
from penstock.pipeline.failure import PipelineFailed
from penstock.pipeline.spark.java import JavaMissingError
from penstock.pipeline.spark.session import SparkSettings

COPY: dict[str, Any] = {"name": "copy", "source": {"topic": "in"}, "sink": {"topic": "out"}}


def settings_for(head: PipelineHead, monkeypatch: pytest.MonkeyPatch) -> SparkSettings:
    asked: list[SparkSettings] = []
    monkeypatch.setattr(spark_launch, "start", asked.append)
    spark_launch.start_spark(head, None)
    [settings] = asked
    return settings


@pytest.mark.parametrize(
    ("keys", "functions", "tables"),
    [
        ({}, False, False),
        ({"transform": "SELECT * FROM source"}, False, False),
        ({"transform": {"python": "m:f"}}, True, False),
        ({"transform": ["SELECT * FROM source", {"python": "m:f"}]}, True, False),
        ({"sink": {"python": "m:f"}}, True, False),
        ({"sink": {"table": "t", "url": "sqlite:///t.db"}}, False, True),
    ],
)
def test_a_session_has_at_hand_what_the_pipeline_uses(
    keys: dict[str, Any], functions: bool, tables: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_for(PipelineSpec.model_validate({**COPY, **keys}), monkeypatch)
    assert (settings.functions, settings.tables) == (functions, tables)


def test_a_program_may_do_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_for(PipelineHead.model_validate({"name": "program"}), monkeypatch)
    assert (settings.functions, settings.tables) == (True, True)


def test_what_starts_ahead_is_what_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = PipelineSpec.model_validate({**COPY, "spark": {"spark.sql.shuffle.partitions": 3, "spark.ui.enabled": True}})
    ahead: list[SparkSettings] = []
    monkeypatch.setattr(spark_launch, "launch", ahead.append)
    spark_launch.launch_ahead(spec, None)
    assert ahead == [settings_for(spec, monkeypatch)]
    assert ahead[0].conf == {"spark.sql.shuffle.partitions": "3", "spark.ui.enabled": "true"}


def test_the_memory_that_a_pipeline_asks_for_is_the_jvms(monkeypatch: pytest.MonkeyPatch) -> None:
    asks = PipelineSpec.model_validate({**COPY, "spark": {"spark.driver.memory": "6g"}})
    assert settings_for(asks, monkeypatch).driver_memory == "6g"
    assert settings_for(PipelineSpec.model_validate(COPY), monkeypatch).driver_memory is None


def test_a_machine_without_java_is_one_line_and_a_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def launch(_settings: SparkSettings) -> None:
        raise JavaMissingError("Spark needs Java")

    monkeypatch.setattr(spark_launch, "launch", launch)
    with pytest.raises(PipelineFailed, match="Spark needs Java") as failure:
        spark_launch.launch_ahead(PipelineSpec.model_validate(COPY), None)
    assert failure.value.exit_code == ExitCode.MISSING_REQUIREMENT


@pytest.mark.parametrize(
    "text",
    [
        "All masters are unresponsive! Giving up.\n\tat org.apache.spark.Client.dead(Client.scala:1)\n",
        "An error occurred while calling None.org.apache.spark.sql.classic.SparkSession.\n"
        ": java.lang.IllegalStateException: All masters are unresponsive! Giving up.\n\tat C.dead(C.scala:1)\n",
    ],
)
def test_a_cluster_that_does_not_take_the_application_is_one_line(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_settings: SparkSettings) -> None:
        raise RuntimeError(text)

    monkeypatch.setattr(spark_launch, "start", start)
    with socket.create_server(("127.0.0.1", 0)) as master:
        url = f"spark://127.0.0.1:{master.getsockname()[1]}"
        with pytest.raises(PipelineFailed, match="All masters are unresponsive") as failure:
            spark_launch.start_spark(PipelineSpec.model_validate(COPY), url)
    assert failure.value.exit_code == ExitCode.ENGINE_LOST
    assert failure.value.entry.condition == "PENSTOCK_CLUSTER_UNAVAILABLE"
    assert str(failure.value).startswith(f"--master: Spark did not start on {url}: All masters are unresponsive!")
    assert "\n" not in str(failure.value)
    assert "scala" not in str(failure.value)


def test_a_cluster_that_is_not_there_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_launch, "start", lambda _settings: pytest.fail("Spark was started"))
    for begin in (spark_launch.start_spark, spark_launch.launch_ahead):
        with pytest.raises(PipelineFailed, match="does not resolve") as failure:
            begin(PipelineSpec.model_validate(COPY), "spark://nohost.invalid:7077")
        assert failure.value.exit_code == ExitCode.ENGINE_LOST
