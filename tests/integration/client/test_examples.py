"""The programs of examples/ work as described, against a real broker.

An example has fixed topic names and uses localhost:9092. The test replaces the topics, the group and the address, and
nothing else. It ends the program with ctrl-C, like a user.
"""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from penstock import Admin, Producer
from tests.clients.waiting import eventually
from tests.integration.client.conftest import NewTopic
from tests.integration.client.test_guarantees import values_of

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
PATIENCE_S = 60


class Example:
    def __init__(self, name: str, bootstrap_servers: str, directory: Path, names: dict[str, str]) -> None:
        self._program = (EXAMPLES / name).read_text()
        self._directory = directory
        for said, meant in {"localhost:9092": bootstrap_servers, **names}.items():
            assert f'"{said}"' in self._program, f"{name} does not say {said}"
            self._program = self._program.replace(f'"{said}"', f'"{meant}"')

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[str]]:
        with subprocess.Popen(
            [sys.executable, "-c", self._program],
            cwd=self._directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
                assert process.poll() is None, "it goes on until it is stopped"
            finally:
                process.send_signal(signal.SIGINT)
                printed, complained = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, complained) == (0, ""), "ctrl-C ends it without a traceback"
        assert printed.endswith("stopped\n")

    def run(self) -> str:
        return subprocess.run(
            [sys.executable, "-c", self._program],
            cwd=self._directory,
            stdout=subprocess.PIPE,
            text=True,
            timeout=PATIENCE_S,
            check=True,
        ).stdout


@pytest.fixture
def visitors(bootstrap_servers: str, new_topic: NewTopic) -> str:
    topic = new_topic()
    with Producer({"bootstrap.servers": bootstrap_servers}) as producer:
        for name in ("ada", "bob", "ada"):
            producer.send(topic, name, timestamp=1_700_000_000_000)
    return topic


@pytest.fixture
def orders(bootstrap_servers: str, new_topic: NewTopic) -> str:
    topic = new_topic()
    with Producer({"bootstrap.servers": bootstrap_servers}, value_serializer="json") as producer:
        for customer, amount in (("ada", 3), ("bob", 4), ("ada", 5)):
            producer.send(topic, {"customer": customer, "amount": amount})
    return topic


def rows(database: Path, query: str) -> list[tuple[object, ...]]:
    if not database.exists():
        return []
    with closing(sqlite3.connect(database)) as connection:
        try:
            return connection.execute(query).fetchall()
        except sqlite3.OperationalError:
            return []


def comes_to(answer: Callable[[], object], expected: object) -> None:
    eventually(lambda: answer() == expected, within_s=PATIENCE_S)
    assert answer() == expected


def test_produce(bootstrap_servers: str, new_topic: NewTopic, tmp_path: Path) -> None:
    orders, visitors = new_topic(), new_topic()
    names = {"orders": orders, "visitors": visitors}
    output = Example("produce.py", bootstrap_servers, tmp_path, names).run()
    assert output.splitlines()[0] == f"order of ada: {orders}, partition 0, offset 0"
    assert output.splitlines()[-1] == f"visitor ada: {visitors}, partition 0, offset 2"
    assert [json.loads(value)["customer"] for value in values_of(bootstrap_servers, orders, "read_committed")] == [
        "ada", "bob", "ada",
    ]  # fmt: skip
    assert values_of(bootstrap_servers, visitors, "read_committed") == ["ada", "bob", "ada"]


def test_at_most_once(bootstrap_servers: str, visitors: str, group: str, tmp_path: Path) -> None:
    example = Example("at_most_once.py", bootstrap_servers, tmp_path, {"visitors": visitors, "greeter": group})
    with example.running() as process:
        assert process.stdout is not None
        printed = [process.stdout.readline() for _ in range(4)]
    assert printed == ["greeting visitors, at most once; ctrl-C ends\n", "hello ada\n", "hello bob\n", "hello ada\n"]


def test_at_least_once(bootstrap_servers: str, visitors: str, group: str, tmp_path: Path) -> None:
    example = Example("at_least_once.py", bootstrap_servers, tmp_path, {"visitors": visitors, "archive": group})
    log = tmp_path / "visitors.log"
    with example.running():
        comes_to(lambda: log.read_text().split()[1::2] if log.exists() else [], ["ada", "bob", "ada"])


def test_exactly_once_sqlite(bootstrap_servers: str, orders: str, group: str, tmp_path: Path) -> None:
    example = Example("exactly_once_sqlite.py", bootstrap_servers, tmp_path, {"orders": orders, "revenue": group})
    query = "SELECT customer, total FROM revenue ORDER BY customer"
    with example.running():
        comes_to(lambda: rows(tmp_path / "revenue.db", query), [("ada", 8), ("bob", 4)])
    # The second one finds out what was done from the database, and nowhere else.
    Admin({"bootstrap.servers": bootstrap_servers}).delete_group(group)
    with Producer({"bootstrap.servers": bootstrap_servers}, value_serializer="json") as producer:
        producer.send(orders, {"customer": "bob", "amount": 1})
    with example.running():
        comes_to(lambda: rows(tmp_path / "revenue.db", query), [("ada", 8), ("bob", 5)])


def test_exactly_once_transform(
    bootstrap_servers: str, orders: str, new_topic: NewTopic, group: str, tmp_path: Path
) -> None:
    invoices = new_topic()
    names = {"orders": orders, "invoices": invoices, "billing": group, "billing-1": f"billing-{uuid4().hex}"}
    with Example("exactly_once_transform.py", bootstrap_servers, tmp_path, names).running():
        comes_to(
            lambda: [json.loads(value) for value in values_of(bootstrap_servers, invoices, "read_committed")],
            [{"to": "ada", "cents": 300}, {"to": "bob", "cents": 400}, {"to": "ada", "cents": 500}],
        )


def test_idempotent_sink(bootstrap_servers: str, visitors: str, group: str, tmp_path: Path) -> None:
    example = Example("idempotent_sink.py", bootstrap_servers, tmp_path, {"visitors": visitors, "counter": group})
    database = tmp_path / "counts.db"
    query = "SELECT visitor, visits FROM counts ORDER BY visitor"
    with example.running():
        comes_to(lambda: rows(database, query), [("ada", 2), ("bob", 1)])
    # Everything comes again, from the beginning, and changes nothing; the new visitor shows that it has been read.
    admin = Admin({"bootstrap.servers": bootstrap_servers})
    admin.set_group_offsets(group, dict.fromkeys(admin.group_offsets(group), 0))
    with Producer({"bootstrap.servers": bootstrap_servers}) as producer:
        producer.send(visitors, "eve")
    with example.running():
        comes_to(lambda: rows(database, query), [("ada", 2), ("bob", 1), ("eve", 1)])
