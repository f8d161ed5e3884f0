"""Pipelines whose batches are more than messages carry, into PostgreSQL: tasks stream them into the driver's
transaction."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from penstock.core.exit_codes import ExitCode
from penstock.pipeline.sinks.table import row_receiver
from penstock.pipeline.sinks.table.open_batch import OpenBatch
from tests.conftest import RunningBroker
from tests.pipeline.penstock_commands import penstock, running
from tests.pipeline.pipeline_runs import Pipelines
from tests.pipeline.table_job import rows_of
from tests.postgres_server import PostgresServer, running_postgres

WORD = "." * 300  # a thousand of them are more than a message carries
OF_INLETS = "SELECT pid FROM pg_stat_activity WHERE starts_with(application_name, 'penstock ')"


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with running_postgres(tmp_path_factory.mktemp("postgres")) as server:
        yield server


@pytest.fixture
def landed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tries of batches that came this way."""
    attempts: list[str] = []

    class Noted(OpenBatch):
        def __init__(self, attempt: str, *others: Any) -> None:
            attempts.append(attempt)
            super().__init__(attempt, *others)

    monkeypatch.setattr(row_receiver, "OpenBatch", Noted)
    return attempts


def row(number: int) -> dict[str, Any]:
    return {"id": number, "word": f"{number} {WORD}"}


def rows(numbers: range) -> Counter[tuple[Any, ...]]:
    return Counter((number, f"{number} {WORD}") for number in numbers)


@pytest.mark.slow
def test_large_batches_and_their_dead_letters(
    pipelines: Pipelines, postgres: PostgresServer, landed: list[str]
) -> None:
    numbers, letters = pipelines.topic("numbers"), pipelines.topic("letters")
    copied = f"""
        name: {pipelines.name("copied")}
        guarantee: exactly_once
        source: {{topic: {numbers}, format: json, schema: "id BIGINT, word STRING", max_offsets_per_trigger: 2000}}
        sink: {{table: copied, url: "{postgres.url}"}}
        on_error: {{dead_letters: {letters}}}
    """
    pipelines.send(numbers, [*(row(number) for number in range(5900)), *(f"nonsense {n}" for n in range(100))])
    events = pipelines.once(copied)
    assert events[-1]["total"] == {"rows": 6000, "batches": 3, "dead_letters": 100, "dropped": 0}
    assert len(landed) == 3
    pipelines.send(numbers, [row(number) for number in range(5900, 5910)])
    pipelines.once(copied)
    assert len(landed) == 3, "few rows go with the messages"
    assert Counter(rows_of(postgres.url, "SELECT id, word FROM copied")) == rows(range(5910))
    assert Counter(found.value for found in pipelines.records(letters)) == Counter(f"nonsense {n}" for n in range(100))
    [(batch,)] = rows_of(
        postgres.url, f"SELECT batch_id FROM penstock_ledger WHERE pipeline = '{pipelines.name('copied')}'"
    )
    assert batch == 3
    assert rows_of(postgres.url, "SELECT relname FROM pg_class WHERE starts_with(relname, 'penstock_staging')") == []


@pytest.mark.slow
def test_changed_rows_of_a_large_aggregation_replace_their_rows(
    pipelines: Pipelines, postgres: PostgresServer, landed: list[str]
) -> None:
    numbers = pipelines.topic("numbers")
    sums = f"""
        name: {pipelines.name("sums")}
        guarantee: exactly_once
        output_mode: update
        source: {{topic: {numbers}, format: json, schema: "id BIGINT, word STRING"}}
        transform: SELECT word, sum(id) AS total, count(*) AS times FROM source GROUP BY word
        sink: {{table: sums, url: "{postgres.url}", mode: upsert, key: [word]}}
    """
    pipelines.send(numbers, [row(number) for number in range(4000)])
    pipelines.once(sums)
    assert len(landed) == 1
    pipelines.send(numbers, [row(number) for number in range(1000, 5000)])
    pipelines.once(sums)
    assert len(landed) == 2
    expected = {
        f"{number} {WORD}": (number * times, times)
        for number in range(5000)
        for times in [2 if 1000 <= number < 4000 else 1]
    }
    found = {word: (int(total), times) for word, total, times in rows_of(postgres.url, "SELECT * FROM sums")}
    assert found == expected


@pytest.mark.slow
def test_a_pipeline_that_is_stopped_between_its_batches_goes_on(
    broker_under_test: RunningBroker, postgres: PostgresServer, tmp_path: Path
) -> None:
    servers, topic, count = broker_under_test.bootstrap_servers, f"numbers-{tmp_path.name}", 20_000
    producer = Producer({"bootstrap.servers": servers})
    for number in range(count):
        producer.produce(topic, json.dumps(row(number)))
        producer.poll(0)
    producer.flush()
    (tmp_path / "copied.yaml").write_text(
        f"""
name: stopped
guarantee: exactly_once
bootstrap_servers: "{servers}"
source: {{topic: {topic}, format: json, schema: "id BIGINT, word STRING", max_offsets_per_trigger: 1000}}
sink: {{table: stopped, url: "{postgres.url}"}}
"""
    )
    with running(tmp_path, "run", "--json", "copied.yaml") as process:
        process.wait_for("progress")
        assert len(rows_of(postgres.url, OF_INLETS)) == 1
        assert process.terminate() == ExitCode.OK
        assert process.process.stderr is not None
        assert process.process.stderr.read() == ""
    done = rows_of(postgres.url, "SELECT count(*), max(id) FROM stopped")
    assert 0 < done[0][0] < count, "it was stopped in the midst of its work"
    assert rows_of(postgres.url, OF_INLETS) == []
    assert penstock(tmp_path, "run", "--once", "copied.yaml").returncode == ExitCode.OK
    assert Counter(rows_of(postgres.url, "SELECT id, word FROM stopped")) == rows(range(count))
