"""The demo's pipeline as a production would run it: Apache Kafka, a Spark cluster, PostgreSQL, and kills with -9."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

from penstock.core.exit_codes import ExitCode
from penstock.testing.apache_kafka import ApacheKafka
from tests.pipeline.table_job import rows_of
from tests.pipeline.topic_contents import contents
from tests.pipeline.topic_feed import AN_HOUR_AGO_MS, Sent, TopicFeed
from tests.postgres_server import PostgresServer
from tests.scale.cluster_pipeline import spark_settings
from tests.scale.pipeline_process import PipelineProcess
from tests.scale.standalone_cluster import StandaloneCluster

pytestmark = [pytest.mark.scale, pytest.mark.timeout(1800)]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
RECORDS = 30_000
PARTITIONS = 3
TOPIC, DEAD_LETTERS = "orders", "revenue.dlq"
SQLITE_URL = "sqlite:///revenue.db"


def test_the_revenue_is_right_whatever_was_killed(
    cluster: StandaloneCluster, apache_kafka: ApacheKafka, postgres: PostgresServer, tmp_path: Path
) -> None:
    orders = demo_orders().make_orders(RECORDS, seed=1)
    feed = TopicFeed(apache_kafka.bootstrap_servers)
    feed.create(TOPIC, partitions=PARTITIONS)
    steps = tmp_path / "steps"
    steps.mkdir()
    careful = (EXAMPLES / "revenue.yaml").read_text()
    assert SQLITE_URL in careful
    file = tmp_path / "revenue.yaml"
    file.write_text(careful.replace(SQLITE_URL, postgres.url) + spark_settings(steps))

    def run(*options: str) -> PipelineProcess:
        place = ("--master", cluster.url, "--bootstrap-server", apache_kafka.bootstrap_servers)
        return PipelineProcess(
            tmp_path, steps, *options, *place, "--checkpoint", str(tmp_path / "checkpoint"), str(file)
        )

    def revenue() -> dict[str, tuple[int, float]]:
        found = rows_of(postgres.url, "SELECT customer, orders, revenue FROM revenue")
        assert len({customer for customer, _, _ in found}) == len(found)
        return {customer: (count, total) for customer, count, total in found}

    half = RECORDS // 2
    send(feed, orders.records[:half])
    with run() as driver:
        driver.await_offsets(TOPIC, dict.fromkeys(range(PARTITIONS), half // PARTITIONS))
        # Rows and dead letters of a batch are in the database, and nobody can see them yet.
        driver.arm("table.before_database_commit")
        send(feed, orders.records[half:])
        driver.require_killed_at("table.before_database_commit")
    assert sum(count for count, _ in revenue().values()) == len(set(orders.records[:half]) - orders.broken.keys())
    with run("--once") as driver:
        assert driver.wait() == ExitCode.OK, driver.said()

    assert revenue() == {name: (account.orders, account.revenue) for name, account in orders.accounts.items()}
    letters = contents(apache_kafka.bootstrap_servers, DEAD_LETTERS)
    assert Counter(letter.value for letter in letters) == orders.broken


def send(feed: TopicFeed, records: Sequence[bytes]) -> None:
    feed.send(TOPIC, [Sent(number % PARTITIONS, None, value, AN_HOUR_AGO_MS) for number, value in enumerate(records)])


def demo_orders() -> ModuleType:
    """The demo is a program for people to read, and no package."""
    spec = importlib.util.spec_from_file_location("demo_orders", EXAMPLES / "demo_orders.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
