"""Tasks of a new user's own, beside one `penstock up`. Each states what it expects, and counts rows."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.page_runner import free_port
from tests.new_user.environment import User, wait_until
from tests.new_user.orders import ORDERS, orders

pytestmark = [pytest.mark.new_user, pytest.mark.timeout(600)]
ROWS_OF_ARCHIVE = "import pyarrow.parquet as pq, sys; print(pq.read_table(sys.argv[1]).num_rows)"


@pytest.fixture(scope="module")
def shop(venv: Path, tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    """Who has `penstock up` running in their directory: pipelines start in its engine."""
    user = User(venv, tools, tmp_path_factory.mktemp("shop"))
    with user.background("penstock", "up", "--listen", f"127.0.0.1:{free_port()}") as up:
        up.wait_for("engine ready")
        yield user


def test_a_join_into_postgresql(shop: User, tmp_path: Path) -> None:
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
        shop.write(
            "customers.py",
            """
            import sqlite3

            database = sqlite3.connect("shop.db")
            database.execute("CREATE TABLE customers (name TEXT, country TEXT)")
            database.executemany("INSERT INTO customers VALUES (?, ?)", [("ada", "GB"), ("bob", "US")])
            database.commit()
            """,
        )
        shop.program("customers.py")
        shop.write(
            "joined.yaml",
            f"""
            name: joined
            guarantee: exactly_once
            sources:
              orders: {{topic: join-orders, schema: "{ORDERS}"}}
              customers: {{table: customers, url: "sqlite:///shop.db"}}
            transform: SELECT id, customer, country, amount FROM orders JOIN customers ON name = customer
            sink: {{table: joined, url: "{server.url}"}}
            """,
        )
        shop.produce("join-orders", orders(0, 300))
        assert shop.once("joined.yaml")["total"]["rows"] == 300
        shop.produce("join-orders", orders(300, 330))
        assert shop.once("joined.yaml")["total"]["rows"] == 30
        assert sorted(rows_of(server.url, "SELECT country, count(*), sum(amount) FROM joined GROUP BY country")) == [
            ("GB", 110, 110.0),
            ("US", 110, 110.0),
        ]


def test_windows(shop: User) -> None:
    """Clicks per minute: each closed window once, with its count; the open one not yet."""
    shop.write(
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
    shop.produce("clicks", clicks)
    shop.once("clicks.yaml")
    shop.produce("clicks", [{"page": "home", "at": "2026-01-01T10:30:00Z"}])
    shop.once("clicks.yaml")
    found = shop.consume_json("clicks-per-minute")
    assert [window["clicks"] for window in found] == [10] * 5
    assert len({window["minute"] for window in found}) == 5


def test_a_changed_schema_is_refused_and_the_files_stay_readable(shop: User) -> None:
    """`id INT` becomes `id STRING` under the same sink: exit code 25, and the 20 rows can still be read."""
    pipeline = """
        name: archive
        guarantee: exactly_once
        source: {topic: archive-orders, schema: "id %s, customer STRING"}
        sink: {files: archive/}
        """
    shop.produce("archive-orders", orders(0, 20))
    shop.write("archive.yaml", pipeline % "INT")
    shop.once("archive.yaml")
    shop.write("archive.yaml", pipeline % "STRING")
    shop.produce("archive-orders", orders(20, 25))
    refused = shop.penstock("run", "--once", "archive.yaml", expect=25)
    assert "id" in refused.err
    assert shop.command(str(shop.python), "-c", ROWS_OF_ARCHIVE, "archive").out == "20\n"


MISTAKES = {
    "a key that is misspelled": ("guarantee", "garantee", 20, "did you mean 'guarantee'?"),
    "a guarantee that no sink keeps": ("topic: copy", "console: true", 20, "exactly_once cannot be kept by this sink"),
    "a trigger without its key": ("name: x", "name: x\ntrigger: 5 seconds", 20, "{interval: 5 seconds}"),
    "a column that is not there": ("SELECT id", "SELECT idd", 21, "did you mean 'id'?"),
    "a topic that is not there": ("topic: orders", "topic: ordres", 4, "did you mean 'orders'?"),
    "a broker that is not there": ("name: x", "name: x\nbootstrap_servers: 127.0.0.1:1", 3, "127.0.0.1:1"),
    "a variable without quotes": ("topic: copy", "topic: ${NOWHERE}", 20, "a variable needs quotes, as in '${NAME}'"),
    "a variable that is not set": ("topic: copy", "topic: '${NOWHERE}'", 20, "NOWHERE is not set"),
}
GOOD = """\
name: x
guarantee: exactly_once
source: {topic: orders, schema: "id BIGINT"}
transform: SELECT id FROM source
sink: {topic: copy}
"""


def test_mistakes_have_one_line_and_an_exit_code(shop: User) -> None:
    """Each of eight mistakes is one line on stderr that names the file and the remedy, with its exit code."""
    shop.produce("orders", orders(0, 1))
    for number, (what, (old, new, code, expected)) in enumerate(MISTAKES.items()):
        name = shop.write(f"mistake-{number}.yaml", GOOD.replace(old, new)).name
        message = shop.penstock("run", "--once", name, expect=code).message
        assert name in message, what
        assert expected in message, f"{what}: {message}"


def test_two_sinks(shop: User) -> None:
    """Every order in a file and every customer in a table; each of the 3 bad records is one dead letter."""
    shop.write(
        "two.yaml",
        f"""
        name: two
        guarantee: exactly_once
        source: {{topic: two-orders, schema: "{ORDERS}"}}
        transform: SELECT customer, count(*) AS orders FROM source GROUP BY customer
        sinks:
          archive: {{files: two-archive/, from: source}}
          totals: {{table: totals, url: "sqlite:///totals.db", key: [customer]}}
        on_error: {{dead_letters: two.dlq}}
        """,
    )
    shop.produce("two-orders", [*orders(0, 60), "one", "two", "three"])
    ended = shop.once("two.yaml")
    assert ended["total"]["dead_letters"] == 3
    assert set(ended["sinks"]) == {"archive", "totals", "dead_letters"}
    assert sorted(shop.consume("two.dlq")) == ["one", "three", "two"]
    assert shop.sqlite("totals.db", "SELECT * FROM totals ORDER BY customer") == [
        ("ada", 20),
        ("bob", 20),
        ("chen", 20),
    ]
    assert shop.command(str(shop.python), "-c", ROWS_OF_ARCHIVE, "two-archive").out == "60\n"
    lag = shop.penstock("group", "describe", "two/totals").out
    assert "two/totals" in lag


def test_deletes_and_new_columns(shop: User) -> None:
    """Of three items one is deleted by a tombstone; a new column is added on request, and is NULL in older rows."""
    pipeline = """
        name: items
        guarantee: exactly_once
        source: {topic: items, schema: "item STRING, pieces INT%s", include: [key], tombstones: keep}
        transform: SELECT coalesce(item, _key) AS item, pieces, _tombstone%s FROM source
        sink: {table: items, url: "sqlite:///items.db", key: [item], delete_when: _tombstone%s}
        """
    shop.write("items.yaml", pipeline % ("", "", ""))
    items = [
        "a|" + '{"item": "a", "pieces": 1}',
        "b|" + '{"item": "b", "pieces": 2}',
        "c|" + '{"item": "c", "pieces": 3}',
    ]
    shop.produce("items", [*items, "b|"], "-K", "|", "-Z")
    shop.once("items.yaml")
    assert shop.sqlite("items.db", "SELECT * FROM items ORDER BY item") == [("a", 1), ("c", 3)]
    shop.write("items.yaml", pipeline % (", shelf STRING", ", shelf", ""))
    shop.produce("items", ["d|" + '{"item": "d", "pieces": 4, "shelf": "top"}'], "-K", "|")
    assert "schema_evolution" in shop.penstock("run", "--once", "items.yaml", expect=25).message
    shop.write("items.yaml", pipeline % (", shelf STRING", ", shelf", ", schema_evolution: add_columns"))
    shop.once("items.yaml")
    found = shop.sqlite("items.db", "SELECT item, pieces, shelf FROM items ORDER BY item")
    assert found == [("a", 1, None), ("c", 3, None), ("d", 4, "top")]


def test_pipelines_beside_up_can_be_seen_and_stopped(shop: User) -> None:
    """A detached pipeline copies 5 rows, is seen by ps and status, and copies no more when it is stopped."""
    shop.write(
        "kept.yaml",
        """
        name: kept
        guarantee: exactly_once
        source: {topic: kept, schema: "id BIGINT"}
        sink: {table: kept, url: "sqlite:///kept.db"}
        """,
    )
    shop.produce("kept", [{"id": number} for number in range(5)])
    shop.penstock("run", "--detach", "kept.yaml")

    def rows() -> int:
        return int(json.loads(shop.penstock("status", "kept", "--json").out)["total"]["rows"])

    wait_until("5 rows are copied", lambda: rows() == 5)
    assert "kept" in shop.penstock("ps").out
    [listed] = [each for each in json.loads(shop.penstock("ps", "--json").out) if each["name"] == "kept"]
    assert (listed["state"], listed["lag"]) == ("RUNNING", 0)
    shop.penstock("stop", "kept")
    assert "STOPPED" in shop.penstock("status", "kept").out
    assert "batch 0: 5 rows" in shop.penstock("logs", "kept").out
    shop.produce("kept", [{"id": 5}])
    assert shop.sqlite("kept.db", "SELECT count(*) FROM kept") == [(5,)]
    shop.penstock("restart", "kept")
    wait_until("the sixth row is copied", lambda: shop.sqlite("kept.db", "SELECT count(*) FROM kept") == [(6,)])
    shop.penstock("stop", "--delete", "kept")
    assert "kept" not in shop.penstock("ps").out


def test_dead_letters_are_listed_and_replayed_after_a_fix(shop: User) -> None:
    """Of five payments two have a text for an amount: two dead letters, and five rows after the fix and a replay."""
    pipeline = """
        name: payments
        guarantee: exactly_once
        source: {topic: payments, schema: "id BIGINT, amount %s"}
        sink: {table: payments%s, url: "sqlite:///payments.db"}
        on_error: {dead_letters: payments.dlq}
        """
    amounts: list[object] = [1.0, "two", 3.0, "four", 5.0]
    shop.produce("payments", [{"id": number, "amount": amount} for number, amount in enumerate(amounts)])
    shop.write("payments.yaml", pipeline % ("DOUBLE", ""))
    assert shop.once("payments.yaml")["total"]["dead_letters"] == 2
    [listed] = json.loads(shop.penstock("dead-letters", "list", "payments.dlq", "--json").out)
    assert (listed["pipeline"], listed["stage"], listed["letters"], listed["waiting"]) == ("payments", "parse", 2, 2)
    assert shop.penstock("dead-letters", "show", "payments.dlq").out.count("reason") == 2
    shop.write("payments.yaml", pipeline % ("STRING", "_as_text"))
    assert "replayed 2 dead letters" in shop.penstock("dead-letters", "replay", "payments.dlq").out
    assert "replayed 0 dead letters" in shop.penstock("dead-letters", "replay", "payments.dlq").out, "once"
    shop.once("payments.yaml", "--checkpoint", "as-text")
    found = shop.sqlite("payments.db", "SELECT count(*), count(DISTINCT id) FROM payments_as_text")
    assert found == [(7, 5)], "the five records, and the two that were replayed behind them"


def test_a_preview_writes_nothing(shop: User) -> None:
    """Three of ten rows are shown; no checkpoint, no table."""
    shop.produce("previewed", orders(0, 10))
    shop.write(
        "previewed.yaml",
        f"""
        name: previewed
        source: {{topic: previewed, schema: "{ORDERS}"}}
        transform: SELECT id, upper(customer) AS customer FROM source
        sink: {{table: previewed, url: "sqlite:///previewed.db"}}
        """,
    )
    shown = shop.penstock("run", "--preview", "3", "previewed.yaml").out
    assert sum(name in line for line in shown.splitlines() for name in ("ADA", "BOB", "CHEN")) == 3, shown
    assert not (shop.directory / "previewed.db").exists()
    assert not (shop.directory / ".penstock" / "checkpoints" / "previewed").exists()
