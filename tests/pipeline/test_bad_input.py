"""Mistakes and mishaps of a pipeline, by the real command: one line with the place and the remedy, an exit code of its
own, nothing lost, and the next start goes on where the last good commit was.

Each of them meets a pipeline that has already committed a row and has another one waiting.
"""

from __future__ import annotations

import itertools
import json
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from penstock.core.exit_codes import ExitCode
from penstock.testing.apache_kafka import ApacheKafka, free_ports
from penstock.testing.java import JavaMissingError
from tests.conftest import optional_part_missing
from tests.pipeline.penstock_commands import penstock, running
from tests.postgres_server import PostgresServer, running_postgres

RIGHT, WRONG = "the-right-secret", "a-wrong-secret"
_numbers = itertools.count(1)

pytestmark = pytest.mark.slow  # each starts `penstock run`, as a person does


class Words:
    """A pipeline of one test from a topic of its own into a table, beside the engine of `penstock up`."""

    def __init__(self, directory: Path, *, url: str | None = None, servers: str | None = None) -> None:
        self.name = f"words{next(_numbers)}"
        self.directory = directory
        self.file = directory / f"{self.name}.yaml"
        self.database = directory / f"{self.name}.db"
        self.yaml = (
            f"name: {self.name}\n"
            "guarantee: exactly_once\n"
            "source:\n"
            f"  topic: {self.name}\n"
            "  format: json\n"
            "  schema: id BIGINT, word STRING\n"
            "transform: |\n"
            "  SELECT id, word\n"
            "  FROM source\n"
            "sink:\n"
            f"  table: {self.name}\n"
            f"  url: {url or f'sqlite:///{self.database.name}'}\n"
        )
        self.file.write_text(self.yaml)
        self._servers = servers or broker_of(directory)
        self._admin = AdminClient({"bootstrap.servers": self._servers})
        self.create_topic()

    def create_topic(self) -> None:
        self._admin.create_topics([NewTopic(self.name, 1, 1)])[self.name].result()

    def delete_topic(self) -> None:
        self._admin.delete_topics([self.name])[self.name].result()

    def send(self, *ids: int) -> None:
        producer = Producer({"bootstrap.servers": self._servers})
        for number in ids:
            producer.produce(self.name, json.dumps({"id": number, "word": f"w{number}"}))
        producer.flush()

    def run_once(self, *options: str, password: str = RIGHT) -> None:
        variables = {"SECRET": password}
        ran = penstock(self.directory, "run", "--once", *options, self.file.name, variables=variables)
        assert (ran.returncode, ran.stdout) == (ExitCode.OK, ""), ran.stderr

    def fails(self, *options: str, password: str = RIGHT) -> tuple[int, str]:
        """The exit code and the line."""
        variables = {"SECRET": password}
        ran = penstock(self.directory, "run", "--json", "--once", *options, self.file.name, variables=variables)
        assert_one_line(ran.stderr)
        return ran.returncode, ran.stderr.rstrip("\n")

    def stored(self) -> list[int]:
        with closing(sqlite3.connect(self.database)) as connection:
            return [number for (number,) in connection.execute(f"SELECT id FROM {self.name} ORDER BY id")]

    def alter(self, statement: str) -> None:
        with closing(sqlite3.connect(self.database)) as connection:
            connection.execute(statement)
            connection.commit()


def broker_of(directory: Path) -> str:
    """The address of the broker that runs for a directory."""
    written = json.loads((directory / ".penstock" / "broker.json").read_text())
    return f"{written['host']}:{written['port']}"


def assert_one_line(said: str) -> None:
    assert said.count("\n") == 1, said
    assert "Traceback" not in said
    assert RIGHT not in said
    assert WRONG not in said


@pytest.fixture
def words(up: Path) -> Words:
    return Words(up)


def test_mistakes_of_the_author_are_one_line_each_and_change_nothing(words: Words) -> None:
    words.send(1)
    words.run_once()
    words.send(2)
    name = words.name
    for before, after, code, line in (
        ("sink:", "snik:", ExitCode.INVALID_PIPELINE, "10: snik: unknown key (did you mean 'sink'?)"),
        ("name: ", "name: [", ExitCode.INVALID_PIPELINE, "2:10: "),  # YAML itself
        (
            f"table: {name}",
            "table: 5",
            ExitCode.INVALID_PIPELINE,
            "11: sink.table: expected text, got the number 5",
        ),
        (
            "format: json",
            "format: jsn",
            ExitCode.INVALID_PIPELINE,
            "5: source.format: 'jsn' is not one of json, csv, text, binary (did you mean 'json'?)",
        ),
        (
            f"topic: {name}",
            f"topic: {name}s",
            ExitCode.NOT_FOUND,
            f"4: source.topic: topic '{name}s' does not exist; did you mean '{name}'?",
        ),
        (
            "SELECT id, word",
            "SELECT id, wrd AS word",
            ExitCode.INVALID_SQL,
            "8:14: transform[0].sql: no column is called 'wrd' (did you mean 'word'?)",
        ),
        (
            "FROM source",
            "FORM source",
            ExitCode.INVALID_SQL,
            "9:8: transform[0].sql: the SQL does not parse at 'source': extra input 'source'",
        ),
    ):
        words.file.write_text(words.yaml.replace(before, after, 1))
        found, said = words.fails()
        place = f"{words.file.name}:{line}"
        assert (found, said.removeprefix("penstock: ")[: len(place)]) == (code, place)
    assert words.stored() == [1]
    words.file.write_text(words.yaml)
    words.run_once()
    assert words.stored() == [1, 2]


def test_a_mistake_in_sql_is_told_alike_by_a_spark_of_its_own(words: Words, tmp_path: Path) -> None:
    words.directory = tmp_path
    words.file = tmp_path / words.file.name
    words.file.write_text(words.yaml.replace("SELECT id, word", "SELECT id, wrd"))
    assert words.fails("--bootstrap-server", broker_of(words.database.parent)) == (
        ExitCode.INVALID_SQL,
        f"{words.file.name}:8:14: transform[0].sql: no column is called 'wrd' (did you mean 'word'?)",
    )
    assert not words.database.exists()


def test_a_checkpoint_of_another_pipeline_is_refused_and_stays_its_own(words: Words) -> None:
    other = Words(words.directory)
    words.send(1)
    words.run_once("--checkpoint", words.name)
    other.send(1)
    code, said = other.fails("--checkpoint", words.name)
    assert code == ExitCode.CHECKPOINT_MISMATCH
    assert said.startswith(f"penstock: {other.file.name}: the checkpoint {words.directory / words.name} does not fit:")
    assert f"it belongs to the pipeline '{words.name}'; name another directory with --checkpoint" in said
    words.send(2)
    words.run_once("--checkpoint", words.name)
    other.run_once()
    assert (words.stored(), other.stored()) == ([1, 2], [1])


def test_a_topic_deleted_while_it_is_read_is_never_taken_for_a_new_one(words: Words) -> None:
    words.send(1, 2)
    with running(words.directory, "run", "--json", words.file.name) as process:
        process.wait_for("progress")
        words.delete_topic()
        code, said = process.wait_for_end()
    assert_one_line(said)
    assert code == ExitCode.SOURCE_LOST
    assert said.startswith(f"penstock: {words.file.name}: topic '{words.name}' partition 0 is gone; the query had read")
    assert said.endswith("; to start over with the records that are left, name another directory with --checkpoint\n")
    assert words.fails()[0] == ExitCode.NOT_FOUND

    # As long as the old one was and longer: its offsets alone would look as if only the last record were new.
    words.create_topic()
    words.send(11, 12, 13)
    code, said = words.fails()
    assert code == ExitCode.SOURCE_LOST
    place = f"penstock: {words.file.name}:4: source.topic: "
    assert said.startswith(f"{place}topic '{words.name}' was deleted and created again since this pipeline has read it")
    assert said.endswith("name another directory with --checkpoint")
    assert words.stored() == [1, 2]
    words.run_once("--checkpoint", f"{words.name}-anew")
    assert words.stored() == [1, 2, 11, 12, 13]


def test_a_table_that_somebody_changes_meanwhile_ends_the_pipeline(words: Words) -> None:
    words.send(1)
    with running(words.directory, "run", "--json", words.file.name) as process:
        process.wait_for("progress")
        words.alter(f"ALTER TABLE {words.name} RENAME COLUMN word TO term")
        words.send(2)
        code, said = process.wait_for_end()
    assert_one_line(said)
    assert (code, said) == (
        ExitCode.SINK_REFUSED,
        f"penstock: {words.file.name}:10: sink: SQLite database {words.database}: table main.{words.name} has no column"
        " named word; the table was changed while the pipeline ran: put back what it had and start again, nothing is"
        " lost\n",
    )
    code, said = words.fails()
    assert code == ExitCode.SINK_REFUSED
    assert said.startswith(f"penstock: {words.file.name}:10: sink: ")
    words.alter(f"ALTER TABLE {words.name} RENAME COLUMN term TO word")
    words.run_once()
    assert words.stored() == [1, 2]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        optional_part_missing(f"a small disk cannot be mounted: {mounted.stderr.strip()}; run as root, with mount(8)")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def fill(disk: Path) -> Path:
    """To the last byte; what takes the room."""
    filling = disk / "filling"
    with filling.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 10, 1):
            try:
                while file.write(bytes(size)):
                    pass
            except OSError:
                continue
    return filling


def test_a_disk_that_fills_up_under_the_checkpoint_ends_the_pipeline(words: Words, small_disk: Path) -> None:
    checkpoint = ("--checkpoint", str(small_disk / "checkpoint"))
    words.send(1)
    with running(words.directory, "run", "--json", *checkpoint, words.file.name) as process:
        process.wait_for("progress")
        filling = fill(small_disk)
        words.send(2)
        code, said = process.wait_for_end()
    assert_one_line(said)
    assert (code, said) == (
        ExitCode.DISK_FULL,
        f"penstock: {words.file.name}: no space is left on the disk of the checkpoint, the state or a local sink; free"
        " some and run the pipeline again: it resumes from its last commit\n",
    )
    filling.unlink()
    words.send(3)
    words.run_once(*checkpoint)
    assert words.stored() == [1, 2, 3]


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """With a user `writer` who needs a password, and has a database `guarded`."""
    directory = tmp_path_factory.mktemp("postgres")
    with running_postgres(directory) as server:
        with psycopg.connect(server.address, autocommit=True) as connection:
            connection.execute(f"CREATE ROLE writer LOGIN PASSWORD '{RIGHT}'")
            connection.execute("CREATE DATABASE guarded OWNER writer")
            rules = directory / "data" / "pg_hba.conf"
            rules.write_text("host all writer 127.0.0.1/32 scram-sha-256\n" + rules.read_text())
            connection.execute("SELECT pg_reload_conf()")
        yield server


def rows_of(postgres: PostgresServer, table: str, database: str = "postgres") -> list[int]:
    with psycopg.connect(postgres.address, dbname=database) as connection:
        return [number for (number,) in connection.execute(f"SELECT id FROM {table} ORDER BY id")]


def test_a_wrong_password_of_a_database_is_told_and_not_shown(up: Path, postgres: PostgresServer) -> None:
    words = Words(up, url=f"postgresql://writer:${{SECRET}}@127.0.0.1:{postgres.port}/guarded")
    words.send(1)
    words.run_once()
    words.send(2)
    assert words.fails(password=WRONG) == (
        ExitCode.ACCESS_DENIED,
        f"penstock: {words.file.name}:10: sink: PostgreSQL postgresql://writer:***@127.0.0.1:{postgres.port}/guarded:"
        ' password authentication failed for user "writer"; check the user and the password of the URL',
    )
    assert rows_of(postgres, words.name, "guarded") == [1]
    words.run_once()
    assert rows_of(postgres, words.name, "guarded") == [1, 2]


def test_a_column_dropped_from_a_database_while_the_pipeline_runs(up: Path, postgres: PostgresServer) -> None:
    words = Words(up, url=f"postgresql://penstock@127.0.0.1:{postgres.port}/postgres")
    words.send(1)
    with running(up, "run", "--json", words.file.name) as process:
        process.wait_for("progress")
        with psycopg.connect(postgres.address, autocommit=True) as connection:
            connection.execute(f"ALTER TABLE {words.name} DROP COLUMN word")
        words.send(2)
        code, said = process.wait_for_end()
    assert_one_line(said)
    assert code == ExitCode.SINK_REFUSED
    assert said.startswith(f"penstock: {words.file.name}:10: sink: PostgreSQL ")
    assert said.endswith("put back what it had and start again, nothing is lost\n")
    with psycopg.connect(postgres.address, autocommit=True) as connection:
        connection.execute(f"ALTER TABLE {words.name} ADD COLUMN word TEXT")
    words.run_once()
    assert rows_of(postgres, words.name) == [1, 2]


@pytest.fixture(scope="module")
def secured_kafka() -> Iterator[tuple[str, str]]:
    """An Apache Kafka whose users alice (PLAIN) and bob (SCRAM) have a password: its open door, and the guarded one."""
    plain, guarded = free_ports(2)
    login = "org.apache.kafka.common.security"
    config = {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{guarded}",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f'{login}.plain.PlainLoginModule required user_alice="{RIGHT}";'
        ),
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": f"{login}.scram.ScramLoginModule required;",
    }
    with ExitStack() as stack:
        try:
            kafka = stack.enter_context(ApacheKafka(config=config, heap="512M"))
        except JavaMissingError as missing:
            optional_part_missing(str(missing))
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        user = UserScramCredentialUpsertion("bob", credential, RIGHT.encode())
        admin.alter_user_scram_credentials([user])["bob"].result()
        del admin  # it would complain of the broker's end
        yield kafka.bootstrap_servers, f"127.0.0.1:{guarded}"


@pytest.mark.parametrize(("mechanism", "user"), [("PLAIN", "alice"), ("SCRAM-SHA-256", "bob")])
def test_a_wrong_password_of_a_broker_is_told_and_not_shown(
    up: Path, secured_kafka: tuple[str, str], mechanism: str, user: str
) -> None:
    open_door, guarded_door = secured_kafka
    words = Words(up, servers=open_door)
    credentials = (
        f"bootstrap_servers: {guarded_door}\n"
        "  options:\n"
        "    kafka.security.protocol: SASL_PLAINTEXT\n"
        f"    kafka.sasl.mechanism: {mechanism}\n"
        f"    kafka.sasl.username: {user}\n"
        "    kafka.sasl.password: ${SECRET}\n"
    )
    words.file.write_text(words.yaml.replace("format: json\n", f"format: json\n  {credentials}"))
    words.send(1)
    words.run_once()
    words.send(2)
    code, said = words.fails(password=WRONG)
    assert code == ExitCode.ACCESS_DENIED
    assert said.startswith(f"penstock: {words.file.name}:3: source: ")
    assert "refused the credentials" in said
    assert words.stored() == [1]
    words.run_once()
    assert words.stored() == [1, 2]

    # The same for a sink.
    words.file.write_text(
        words.yaml.replace(f"  table: {words.name}\n", f"  topic: {words.name}.copies\n  {credentials}")
        .replace(f"  url: sqlite:///{words.database.name}\n", "")
        .replace("  format: json\n", f"  bootstrap_servers: {open_door}\n")
        .replace(f"name: {words.name}", f"name: {words.name}.copies")
    )
    code, said = words.fails(password=WRONG)
    assert code == ExitCode.ACCESS_DENIED
    assert said.startswith(f"penstock: {words.file.name}:11: sink.topic: ")
    words.run_once()
