"""Tasks of a new user's own. Each states what it expects, and counts rows."""

from __future__ import annotations

import contextlib
import json
import signal
from collections import Counter
from pathlib import Path

import pytest

from tests.docs.page_runner import ROOT, free_port
from tests.new_user.environment import User

pytestmark = [pytest.mark.new_user, pytest.mark.timeout(600)]

ORDERS = "id BIGINT, customer STRING, amount DOUBLE"


def orders(first: int, end: int) -> list[dict[str, object]]:
    """Of three customers in turn, each for 1.0."""
    return [
        {"id": number, "customer": ("ada", "bob", "chen")[number % 3], "amount": 1.0} for number in range(first, end)
    ]


def test_a_join_into_postgresql(user: User, tmp_path: Path) -> None:
    """Orders with the countries of a table: every order of a known customer once, none of an unknown one."""
    from penstock.testing.database_server import DatabaseMissingError
    from penstock.testing.postgres import running_postgres
    from tests.conftest import optional_part_missing
    from tests.pipeline.table_job import rows_of

    with contextlib.ExitStack() as stack:
        (tmp_path / "database").mkdir()
        try:
            server = stack.enter_context(running_postgres(tmp_path / "database"))
        except DatabaseMissingError as missing:
            optional_part_missing(str(missing))
        user.write(
            "customers.py",
            """
            import sqlite3

            shop = sqlite3.connect("shop.db")
            shop.execute("CREATE TABLE customers (name TEXT, country TEXT)")
            shop.executemany("INSERT INTO customers VALUES (?, ?)", [("ada", "GB"), ("bob", "US")])
            shop.commit()
            """,
        )
        user.program("customers.py")
        user.write(
            "joined.yaml",
            f"""
            name: joined
            guarantee: exactly_once
            sources:
              orders: {{topic: orders, schema: "{ORDERS}"}}
              customers: {{table: customers, url: "sqlite:///shop.db"}}
            transform: SELECT id, customer, country, amount FROM orders JOIN customers ON name = customer
            sink: {{table: joined, url: "{server.url}"}}
            """,
        )
        user.produce("orders", orders(0, 300))
        assert user.once("joined.yaml")["total"]["rows"] == 300
        user.produce("orders", orders(300, 330))
        assert user.once("joined.yaml")["total"]["rows"] == 30
        assert sorted(rows_of(server.url, "SELECT country, count(*), sum(amount) FROM joined GROUP BY country")) == [
            ("GB", 110, 110.0),
            ("US", 110, 110.0),
        ]


def test_windows(user: User) -> None:
    """Clicks per minute: each closed window once, with its count; the open one not yet."""
    user.write(
        "clicks.yaml",
        """
        name: clicks
        guarantee: exactly_once
        source: {topic: clicks, schema: "page STRING, at TIMESTAMP", timestamp: at, watermark: 1 minute}
        transform: >
          SELECT page, window.start AS minute, count(*) AS clicks
          FROM source GROUP BY page, window(at, '1 minute')
        sink: {topic: clicks-per-minute, key: page}
        """,
    )
    clicks = [
        {"page": "home", "at": f"2026-01-01T10:{minute:02}:{second:02}Z"} for minute in range(5) for second in range(10)
    ]
    user.produce("clicks", clicks)
    user.once("clicks.yaml")
    user.produce("clicks", [{"page": "home", "at": "2026-01-01T10:30:00Z"}])
    user.once("clicks.yaml")
    found = user.consume_json("clicks-per-minute")
    assert [window["clicks"] for window in found] == [10] * 5
    assert len({window["minute"] for window in found}) == 5


def test_a_python_function_and_a_udf(user: User) -> None:
    """A step in Python with a UDF: 90 of 100 rows pass, and the UDF has seen each."""
    user.write(
        "rates.py",
        """
        from pyspark.sql import DataFrame
        from pyspark.sql.functions import col, pandas_udf, udf


        def in_euro(orders: DataFrame) -> DataFrame:
            shout = udf(lambda name: name.upper(), "string")
            return orders.where("id >= 10").withColumn("customer", shout(col("customer")))
        """,
    )
    user.write(
        "euro.yaml",
        f"""
        name: euro
        source: {{topic: orders, schema: "{ORDERS}"}}
        transform:
          - {{name: converted, python: "rates:in_euro"}}
        sink: {{topic: shouted, key: customer}}
        """,
    )
    user.produce("orders", orders(0, 100))
    user.once("euro.yaml")
    found = user.consume_json("shouted")
    assert len(found) == 90
    assert {row["customer"] for row in found} == {"ADA", "BOB", "CHEN"}


def test_a_changed_schema_is_refused_and_the_files_stay_readable(user: User) -> None:
    """`id INT` becomes `id STRING` under the same sink: exit code 25, and the 20 rows can still be read."""
    pipeline = """
        name: archive
        guarantee: exactly_once
        source: {topic: orders, schema: "id %s, customer STRING"}
        sink: {files: archive/}
        """
    user.produce("orders", orders(0, 20))
    user.write("archive.yaml", pipeline % "INT")
    user.once("archive.yaml")
    user.write("archive.yaml", pipeline % "STRING")
    user.produce("orders", orders(20, 25))
    refused = user.penstock("run", "--once", "archive.yaml", expect=25)
    assert "id" in refused.err
    count = "import pyarrow.parquet as pq; print(len(pq.read_table('archive').to_pylist()))"
    assert user.command(str(user.python), "-c", count).out == "20\n"


def test_kill_9_and_restart(user: User) -> None:
    """Killed with -9 in the middle of 50,000 orders, and started again: each is counted once."""
    user.write(
        "revenue.yaml",
        f"""
        name: revenue
        guarantee: exactly_once
        source: {{topic: orders, schema: "{ORDERS}", max_offsets_per_trigger: 5000}}
        transform: SELECT customer, count(*) AS orders, sum(amount) AS revenue FROM source GROUP BY customer
        sink: {{table: revenue, url: "sqlite:///revenue.db", key: [customer]}}
        """,
    )
    user.produce("orders", orders(0, 50_000))
    with user.background("penstock", "run", "--json", "revenue.yaml") as running:
        running.wait_for('"event": "progress"')
        running.kill()
    killed_at = sum(count for (count,) in user.sqlite("revenue.db", "SELECT orders FROM revenue"))
    assert 0 < killed_at < 50_000
    user.once("revenue.yaml")
    found = user.sqlite("revenue.db", "SELECT customer, orders, revenue FROM revenue ORDER BY customer")
    assert found == [("ada", 16667, 16667.0), ("bob", 16667, 16667.0), ("chen", 16666, 16666.0)]


def test_a_broker_outage(user: User) -> None:
    """The broker is killed under a running pipeline and comes back: all 200 orders arrive, each once."""
    port = free_port()
    servers = ("--bootstrap-server", f"127.0.0.1:{port}")
    broker = ("penstock", "broker", "--listen", f"127.0.0.1:{port}", "--data-dir", "data")
    user.write(
        "copy.yaml",
        f"""
        name: copy
        guarantee: exactly_once
        source: {{topic: orders, schema: "{ORDERS}"}}
        sink: {{table: copy, url: "sqlite:///copy.db"}}
        """,
    )

    def copied() -> int:
        if not (user.directory / "copy.db").exists():
            return 0
        with contextlib.suppress(Exception):  # the table is not there yet
            return int(user.sqlite("copy.db", "SELECT count(*) FROM copy")[0][0])
        return 0

    with contextlib.ExitStack() as stack:
        first = stack.enter_context(user.background(*broker))
        first.wait_for("listening")
        user.produce("orders", orders(0, 100), *servers)
        pipeline = stack.enter_context(user.background("penstock", "run", "--json", *servers, "copy.yaml"))
        pipeline.wait_until("copied 100", lambda: copied() == 100)
        first.kill()
        second = stack.enter_context(user.background(*broker))
        second.wait_for("listening")
        user.produce("orders", orders(100, 200), *servers)
        pipeline.wait_until("copied 200", lambda: copied() == 200)
        pipeline.send(signal.SIGTERM)
    assert user.sqlite("copy.db", "SELECT count(*), count(DISTINCT id) FROM copy") == [(200, 200)]


MISTAKES = {
    "a key that is misspelled": ("guarantee", "garantee", 20, "did you mean 'guarantee'?"),
    "a guarantee that no sink keeps": ("topic: copy", "console: true", 20, "exactly_once cannot be kept by this sink"),
    "a trigger without its key": ("name: x", "name: x\ntrigger: 5 seconds", 20, "{interval: 5 seconds}"),
    "a column that is not there": ("SELECT id", "SELECT idd", 21, "did you mean 'id'?"),
    "a topic that is not there": ("topic: orders", "topic: ordres", 4, "did you mean 'orders'?"),
    "a broker that is not there": ("name: x", "name: x\nbootstrap_servers: 127.0.0.1:1", 3, "127.0.0.1:1"),
    "a variable that is not set": ("topic: copy", "topic: ${NOWHERE}", 20, "NOWHERE is not set"),
}
GOOD = """\
name: x
guarantee: exactly_once
source: {topic: orders, schema: "id BIGINT"}
transform: SELECT id FROM source
sink: {topic: copy}
"""


def test_mistakes_have_one_line_and_an_exit_code(user: User) -> None:
    """Each of seven mistakes is one line on stderr that names the file and the remedy, with its exit code."""
    user.produce("orders", orders(0, 1))
    with user.background("penstock", "up", "--listen", f"127.0.0.1:{free_port()}") as up:
        up.wait_for("engine")
        for number, (what, (old, new, code, expected)) in enumerate(MISTAKES.items()):
            name = user.write(f"mistake-{number}.yaml", GOOD.replace(old, new)).name
            message = user.penstock("run", "--once", name, expect=code).message
            assert name in message, what
            assert expected in message, f"{what}: {message}"


def test_two_sinks(user: User) -> None:
    """Every order in a file and every customer in a table; each of the 3 bad records is one dead letter."""
    user.write(
        "two.yaml",
        f"""
        name: two
        guarantee: exactly_once
        source: {{topic: orders, schema: "{ORDERS}"}}
        transform: SELECT customer, count(*) AS orders FROM source GROUP BY customer
        sinks:
          archive: {{files: archive/, from: source}}
          totals: {{table: totals, url: "sqlite:///totals.db", key: [customer]}}
        on_error: {{dead_letters: two.dlq}}
        """,
    )
    user.produce("orders", [*orders(0, 60), "one", "two", "three"])
    ended = user.once("two.yaml")
    assert ended["total"]["dead_letters"] == 3
    assert set(ended["sinks"]) == {"archive", "totals", "dead_letters"}
    assert sorted(user.consume("two.dlq")) == ["one", "three", "two"]
    assert user.sqlite("totals.db", "SELECT * FROM totals ORDER BY customer") == [
        ("ada", 20),
        ("bob", 20),
        ("chen", 20),
    ]
    count = "import pyarrow.parquet as pq; print(len(pq.read_table('archive').to_pylist()))"
    assert user.command(str(user.python), "-c", count).out == "60\n"
    lag = user.penstock("group", "describe", "two/totals").out
    assert "two/totals" in lag


def test_a_program_shows_types_and_runs(user: User) -> None:
    """A Python program with two sinks: 10 rows in each."""
    user.write(
        "program.py",
        f"""
        from penstock import Files, Pipeline, Table, Topic

        p = Pipeline("program", guarantee="exactly_once")
        orders = p.read(Topic("orders", schema="{ORDERS}"))
        p.write(orders, Table("sqlite:///program.db", "orders"), name="table")
        p.write(orders, Files("program", format="json"), name="files")
        p.run(once=True)
        """,
    )
    user.produce("orders", orders(0, 10))
    user.penstock("run", "program.py")
    assert user.sqlite("program.db", "SELECT count(*) FROM orders") == [(10,)]
    lines = [line for file in (user.directory / "program").glob("*.json") for line in file.read_text().splitlines()]
    assert Counter(json.loads(line)["id"] for line in lines) == Counter(range(10))


EXAMPLES = (
    "at_most_once.py",
    "at_least_once.py",
    "idempotent_sink.py",
    "exactly_once_sqlite.py",
    "exactly_once_transform.py",
)


def test_the_examples_in_their_order(user: User) -> None:
    """As examples/README.md has them: each handles the three records that produce.py sent, and ends on ctrl-C."""
    port = free_port()
    for file in (ROOT / "examples").glob("*.py"):
        user.write(file.name, file.read_text().replace("9092", str(port)))
    with user.background("penstock", "broker", "--listen", f"127.0.0.1:{port}", "--data-dir", "data") as broker:
        broker.wait_for("listening")
        assert len(user.program("produce.py").lines) == 6
        for name in EXAMPLES:
            with user.background(str(user.python), name) as running:
                running.wait_for_lines(4)
                assert running.send(signal.SIGINT) == 0, running.printed
                assert running.printed.endswith("stopped\n")
                assert "Traceback" not in running.printed
        user.program("several_sinks.py")
        assert user.sqlite("totals.db", "SELECT * FROM revenue ORDER BY customer") == [("ada", 8.0), ("bob", 4.0)]
        servers = ("--bootstrap-server", f"127.0.0.1:{port}")
        assert len(user.penstock("consume", "large-orders", "--from-beginning", "-e", *servers).lines) == 2
