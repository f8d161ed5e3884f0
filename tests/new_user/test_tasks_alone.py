"""Tasks of a new user's own that need a Spark of their own: functions, programs, kills, outages."""

from __future__ import annotations

import contextlib
import json
import signal
from collections import Counter

import pytest

from tests.docs.page_runner import ROOT, free_port
from tests.new_user.environment import User
from tests.new_user.orders import ORDERS, orders

pytestmark = [pytest.mark.new_user, pytest.mark.timeout(600)]

EXAMPLES = (
    "at_most_once.py",
    "at_least_once.py",
    "idempotent_sink.py",
    "exactly_once_sqlite.py",
    "exactly_once_transform.py",
)


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
