"""A real broker with `--metrics`, real clients, and a scrape that shows what they did."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from penstock.client.local_broker.process import BrokerProcess, BrokerProcessError, WithParent
from tests.exposition import Exposition, Labels
from tests.metrics_page import check_page

PLACE = {"topic": "orders", "partition": "0"}


def scrape(address: str) -> Exposition:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
        return Exposition(answer.read().decode())


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    started = BrokerProcess.start(
        tmp_path_factory.mktemp("metrics"),
        settings={
            "transaction.state.log.num.partitions": "3",
            "offsets.topic.num.partitions": "3",
            "log.flush.interval.messages": "100",
        },
        lifetime=WithParent(),
        metrics="127.0.0.1:0",
    )
    yield started
    started.terminate()


@pytest.fixture(scope="module")
def figures(broker: BrokerProcess) -> Exposition:
    """A hundred records in; sixty read and committed by a group; a transaction of five records left open."""
    servers = {"bootstrap.servers": broker.bootstrap_servers}
    producer = confluent_kafka.Producer({**servers, "linger.ms": 50})
    for number in range(100):
        producer.produce("orders", str(number).encode(), partition=0)
    producer.flush()
    consumer = confluent_kafka.Consumer(
        {**servers, "group.id": 'billing "eu"', "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    consumer.subscribe(["orders"])
    read = 0
    while read < 60:
        read += len(consumer.consume(60 - read, timeout=10))
    consumer.commit(asynchronous=False)
    copier = confluent_kafka.Producer({**servers, "transactional.id": "copier", "transaction.timeout.ms": 60_000})
    copier.init_transactions()
    copier.begin_transaction()
    for number in range(5):
        copier.produce("copies", str(number).encode(), partition=0)
    copier.flush()
    assert broker.metrics is not None
    try:
        return scrape(broker.metrics)
    finally:
        consumer.close()
        copier.abort_transaction()


def test_records_and_logs(figures: Exposition) -> None:
    assert figures.value("kafka_server_brokertopicmetrics_messagesin_total", topic="orders") == 100
    assert figures.value("kafka_log_log_logendoffset", **PLACE) == 100
    assert figures.value("kafka_topic_partition_current_offset", **PLACE) == 100
    assert figures.value("kafka_log_log_numlogsegments", **PLACE) == 1
    size = figures.value("kafka_server_brokertopicmetrics_bytesin_total", topic="orders")
    assert figures.value("kafka_log_log_size", **PLACE) == size > 100
    assert figures.value("kafka_server_brokertopicmetrics_bytesout_total", topic="orders") >= size * 0.6
    assert figures.value("kafka_log_logflushstats_logflushtime_seconds_count") > 0


def test_requests(figures: Exposition) -> None:
    prefix = "kafka_network_requestmetrics_"
    for request in ("Produce", "Fetch", "JoinGroup", "OffsetCommit", "AddPartitionsToTxn"):
        count = figures.value(prefix + "requests_total", request=request)
        assert count > 0, request
        assert figures.value(prefix + "totaltime_seconds_count", request=request) == count
        assert figures.value(prefix + "totaltime_seconds_sum", request=request) > 0
        assert figures.value(prefix + "requestbytes_total", request=request) > 10 * count
        assert figures.value(prefix + "responsebytes_total", request=request) > 5 * count


def test_connections(figures: Exposition) -> None:
    prefix = "kafka_server_socketservermetrics_"
    opened = figures.value(prefix + "connectioncreation_total", listener="PLAINTEXT")
    closed = figures.value(prefix + "connectionclose_total", listener="PLAINTEXT")
    assert figures.value(prefix + "connectioncount", listener="PLAINTEXT") == opened - closed > 0
    assert figures.value(prefix + "failed_authentication_total", listener="PLAINTEXT") == 0


def test_a_group_with_its_lag(figures: Exposition) -> None:
    group = {"consumergroup": 'billing "eu"'}
    assert figures.value("kafka_consumergroup_members", **group) == 1
    assert figures.value("kafka_consumergroup_current_offset", **group, **PLACE) == 60
    assert figures.value("kafka_consumergroup_lag", **group, **PLACE) == 40


def test_a_transaction_that_is_open(figures: Exposition) -> None:
    assert figures.value("penstock_transactions", state="Ongoing") == 1
    assert figures.value("penstock_transactions_hanging") == 0
    # Its records are in the log, and those of the marker are not yet.
    assert figures.value("kafka_log_log_logendoffset", topic="copies", partition="0") == 5


def test_the_process(figures: Exposition, broker: BrokerProcess) -> None:
    assert figures.value("process_cpu_seconds_total") > 0
    assert figures.value("process_resident_memory_bytes") > 1_000_000
    assert figures.value("process_start_time_seconds") < time.time()
    assert figures.value("kafka_brokers") == 1


def test_the_documentation_lists_what_is_served(figures: Exposition) -> None:
    check_page("Broker", figures)


def test_groups_and_their_lag_are_there_after_a_restart_without_any_client(tmp_path: Path) -> None:
    """Nobody asks for a group whose consumers are all down, which is when its lag matters."""

    def start() -> BrokerProcess:
        settings = {"offsets.topic.num.partitions": "2"}
        return BrokerProcess.start(tmp_path, settings=settings, lifetime=WithParent(), metrics="127.0.0.1:0")

    first = start()
    producer = confluent_kafka.Producer({"bootstrap.servers": first.bootstrap_servers})
    producer.produce("orders", b"x", partition=0)
    producer.flush()
    consumer = confluent_kafka.Consumer({"bootstrap.servers": first.bootstrap_servers, "group.id": "billing"})
    consumer.commit(offsets=[confluent_kafka.TopicPartition("orders", 0, 0)], asynchronous=False)
    consumer.close()
    first.terminate()
    second = start()
    try:
        assert second.metrics is not None
        lags: dict[Labels, float] = {}
        while not lags:  # a large group topic is loaded in slices
            lags = dict(scrape(second.metrics).values("kafka_consumergroup_lag"))
        assert list(lags.values()) == [1]
    finally:
        second.terminate()


def test_a_port_that_is_taken_prevents_the_start_in_one_line(broker: BrokerProcess, tmp_path: Path) -> None:
    with pytest.raises(BrokerProcessError) as refused:
        BrokerProcess.start(tmp_path / "data", lifetime=WithParent(), metrics=broker.metrics)
    assert refused.value.exit_code == 11
    assert refused.value.printed == (
        f"penstock: cannot listen on {broker.metrics}: the address is already in use; stop the process that uses it,"
        " or choose another port with --metrics"
    )
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--metrics", "here"], "penstock: cannot listen on here:9404: "),
        (["--metrics", "127.0.0.1:metrics"], "penstock: --metrics '127.0.0.1:metrics' is not HOST:PORT"),
        (["--log-format", "xml"], "penstock: argument --log-format: invalid choice: 'xml'"),
    ],
)
def test_options_that_mean_nothing(tmp_path: Path, options: list[str], line: str) -> None:
    command = [sys.executable, "-m", "penstock.cli.main", "broker", "--listen", "127.0.0.1:0", "--data-dir"]
    ended = subprocess.run([*command, str(tmp_path / "data"), *options], capture_output=True, text=True, timeout=30)
    assert ended.returncode in (2, 11)
    assert ended.stderr.startswith(line)
    assert ended.stderr.count("\n") == 1


def test_a_log_of_json_lines(tmp_path: Path) -> None:
    """Warnings at the start, and the failure that prevents it."""
    command = [sys.executable, "-m", "penstock.cli.main", "broker", "--listen", "0.0.0.0:0", "--log-format", "json"]
    command += ["--data-dir", str(tmp_path / "file"), "--metrics", "0.0.0.0:0"]
    (tmp_path / "file").write_text("")
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert ended.returncode == 13
    *warnings, failure = [json.loads(line) for line in ended.stderr.splitlines()]
    assert [each["level"] for each in warnings] == ["WARNING", "WARNING"]
    assert {each["logger"] for each in warnings} == {"penstock.broker.main"}
    assert any("LISTENER WITHOUT AUTHENTICATION" in each["message"] for each in warnings)
    assert any("metrics on 0.0.0.0:0 have no authentication" in each["message"] for each in warnings)
    assert failure["level"] == "ERROR"
    assert failure["logger"] == "penstock"
    assert str(tmp_path / "file") in failure["message"]
    assert failure["time"].endswith("Z")
