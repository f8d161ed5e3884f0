"""Every clock of the benchmark once, with tiny loads, against a real broker of ours."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from penstock.bench.catalogue import CATALOGUE
from penstock.bench.group_load import GroupLoad
from penstock.bench.load import Load
from penstock.bench.main import main
from penstock.bench.measurement import MeasurementError, Workbench
from penstock.bench.peers import assemble
from penstock.bench.sizes import QUICK
from penstock.bench.topics import create_topic
from penstock.testing import Broker

TINY = dataclasses.replace(
    QUICK,
    small_record_count=25_000,
    large_record_count=21_000,
    warm_up_share=0.5,
    one_at_a_time_count=50,
    one_at_a_time_warm_up_count=10,
    memory_bytes=21_000_000,
    settle_s=0.05,
    partition_count=20,
    idle_s=0.1,
    log_bytes=(1_000_000, 3_000_000),
    random_read_count=50,
    random_read_warm_up_count=5,
    transaction_counts={1: 20, 100: 10, 10_000: 2},
    group_member_count=4,
    group_partition_count=18,
    group_session_timeout_ms=1_000,
    group_pause_s=0.05,
    group_warm_up_count=0,
    group_repeat_count=1,
    compaction_bytes=30_000_000,
    restart_log_bytes=3_000_000,
    offset_commit_count=5_000,
    quota_bytes_per_second=500_000,
    quota_warm_up_s=1.0,
    quota_s=2.0,
    metrics_turns=2,
    metrics_turn_requests=800,
    connect_row_count=4_000,
    connect_table_row_count=4_000,
    connect_idle_count=3,
    time_limit_s=120.0,  # a Spark that starts beside others takes its time
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    # Those of Spark start one engine after the other.
    [
        pytest.param(name, marks=[pytest.mark.scale] if name.startswith(("spark", "connect")) else [])
        for name in CATALOGUE
    ],
)
def test_a_measurement_brings_a_figure_for_each_of_its_metrics(name: str, tmp_path: Path) -> None:
    (penstock,) = assemble(with_apache_kafka=False).contestants
    told: list[str] = []
    measurement = CATALOGUE[name](TINY)
    readings = measurement.run(penstock, Workbench(tmp_path, told.append))
    assert set(readings) == {metric.key for metric in measurement.metrics}
    # Idle CPU, and the CPU of a load of a few milliseconds, may be less than the clock's tick.
    assert all(value > 0 for key, value in readings.items() if "cpu" not in key and "cores" not in key), readings
    assert all(value >= 0 for value in readings.values())
    assert told
    assert list(tmp_path.iterdir()) == []


def test_a_load_that_cannot_finish_says_so() -> None:
    with Broker() as broker:
        create_topic(broker.bootstrap_servers, "short", time_limit_s=10)
        load = Load(
            kind="consume",
            bootstrap_servers=broker.bootstrap_servers,
            broker_pid=broker.pid,
            topic="short",
            record_bytes=100,
            record_count=10,
            time_limit_s=1.0,
        )
        with pytest.raises(MeasurementError, match=r"only 0 records after 1 s"):
            load.run()


def group_load(broker: Broker) -> GroupLoad:
    return GroupLoad(
        bootstrap_servers=broker.bootstrap_servers,
        protocol="classic",
        topic="absent",
        partition_count=18,
        member_count=4,
        session_timeout_ms=6_000,
        heartbeat_interval_ms=20,
        warm_up_count=0,
        repeat_count=1,
        pause_s=0.0,
        time_limit_s=1.0,
    )


def test_a_group_that_never_settles_is_a_failure() -> None:
    with Broker() as broker:
        load = dataclasses.replace(group_load(broker), protocol="consumer")
        with pytest.raises(MeasurementError, match=r"the group did not settle within 1 s"):
            load.run()


def test_a_member_that_is_refused_is_a_failure() -> None:
    with Broker() as broker:
        load = dataclasses.replace(group_load(broker), session_timeout_ms=1)
        with pytest.raises(MeasurementError, match="a JoinGroup failed with INVALID_SESSION_TIMEOUT"):
            load.run()


def test_a_dead_member_is_missed_when_its_session_ends_and_not_before() -> None:
    with Broker(config={"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "500"}) as broker:
        load = dataclasses.replace(group_load(broker), session_timeout_ms=500, time_limit_s=20.0)
        result = load.run()
    assert len(result.after_join_ms) == len(result.after_death_ms) == 1
    # The coordinator counts whole milliseconds, so it may see a session end one early.
    assert result.after_death_ms[0] > -1


def test_a_topic_that_exists_cannot_be_created() -> None:
    with Broker() as broker:
        create_topic(broker.bootstrap_servers, "twice", time_limit_s=10, partition_count=3)
        with pytest.raises(MeasurementError, match="cannot create topic twice"):
            create_topic(broker.bootstrap_servers, "twice", time_limit_s=10)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--alone", "--quick", "--rounds", "1", "--only", "start", "--json", "--output", str(tmp_path)]
    assert main(arguments) == 0
    printed, progress = capsys.readouterr()
    results = json.loads(printed)
    assert results == json.loads((tmp_path / "results.json").read_text())
    assert results["notes"][0] == "apache-kafka was not measured, so there are no ratios: it was not requested"
    assert results["failures"] == []
    (section,) = results["sections"]
    assert all(len(row["figures"]["penstock"]["rounds"]) == 1 for row in section["rows"])
    assert "[2/2] start, round 1/1, Penstock" in progress
    assert list((tmp_path / "data").iterdir()) == []


@pytest.mark.parametrize("arguments", [["--only", "everything"], ["--rounds", "0"]])
def test_a_wrong_option(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    assert arguments[0] in capsys.readouterr().err
