"""What Spark says of a pipeline before it runs, in one line each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.pipeline.analysis import Findings, check_plan_with_spark, check_with_spark
from penstock.pipeline.api import ProgramChecked, checking
from penstock.pipeline.declaration.spec_file import load_pipeline, parse_pipeline
from penstock.pipeline.rows.output_mode import output_mode
from penstock.pipeline.rows.transform_chain import apply_transform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
ORDERS = '{topic: orders, schema: "id BIGINT, customer STRING, amount DOUBLE, at TIMESTAMP"%s}'
EVENT_TIME = ", timestamp: at, watermark: 10 minutes"
UPSERT = "{table: t, url: 'sqlite:///t.db', key: [customer]}"
APPEND = "{table: t, url: 'sqlite:///t.db'}"
TOTALS = "SELECT customer, sum(amount) AS total FROM source GROUP BY customer"
WINDOWS = (
    "SELECT customer, window.start AS since, sum(amount) AS total FROM source GROUP BY customer, window(at, '1 hour')"
)
SESSIONS = WINDOWS.replace("window.start", "session_window.start").replace("window(at", "session_window(at")


def check(spark: SparkSession, text: str, directory: Path = Path()) -> Findings:
    pipeline = parse_pipeline(text, "p.yaml", {})
    return check_with_spark(pipeline.spec, spark, pipeline.origin, directory)


def pipeline(transform: str = "SELECT * FROM source", sink: str = APPEND, source: str = "", more: str = "") -> str:
    return f"name: x\nsource: {ORDERS % source}\nsink: {sink}\ntransform: {transform}\n{more}\n"


def problems(spark: SparkSession, text: str, directory: Path = Path()) -> list[str]:
    return [str(problem) for problem in check(spark, text, directory).problems]


@pytest.mark.parametrize(
    "text",
    [
        pipeline(),
        pipeline(TOTALS, UPSERT),
        pipeline(TOTALS, "{console: true}"),
        pipeline(TOTALS, "{topic: t}", more="output_mode: update"),
        pipeline(WINDOWS, APPEND, EVENT_TIME),
        pipeline(WINDOWS.replace("window(at, '1 hour')", "window(at, '1 hour', '5 minutes')"), APPEND, EVENT_TIME),
        pipeline(SESSIONS, APPEND, EVENT_TIME),
        pipeline(source=EVENT_TIME + ", dedupe: [id]"),
        pipeline(sink="{topic: t, key: customer, headers: {id: cast(id AS STRING)}, partition: id % 8}"),
        pipeline("SELECT to_json(struct(*)) AS value FROM source", "{topic: t, format: text}"),
        pipeline(sink="{files: out/, partition_by: [customer]}"),
        pipeline(more="expect: {positive: amount > 0, named: customer IS NOT NULL}"),
    ],
)
def test_a_good_pipeline_has_no_problems(spark: SparkSession, text: str) -> None:
    assert problems(spark, text) == []


def test_streams_join_with_streams_and_tables(spark: SparkSession) -> None:
    text = f"""
name: x
sources:
  orders: {ORDERS % EVENT_TIME}
  payments: {{topic: payments, schema: "order_id BIGINT, paid_at TIMESTAMP", timestamp: paid_at, watermark: 1 hour}}
  customers: {{table: customers, url: "sqlite:///c.db", schema: "name STRING, country STRING"}}
transform:
  - paid: |
      SELECT id, customer FROM orders JOIN payments
      ON order_id = id AND paid_at BETWEEN at AND at + INTERVAL 1 HOUR
  - SELECT paid.*, country FROM paid LEFT JOIN customers ON name = customer
sink: {{table: t, url: "sqlite:///t.db", key: [id]}}
"""
    assert problems(spark, text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            pipeline("SELECT custmer FROM source"),
            "p.yaml:4:19: transform[0].sql: no column is called 'custmer' (did you mean 'customer'?)",
        ),
        (
            pipeline("SELECT id FROM sorce"),
            "p.yaml:4:27: transform[0].sql: no source or earlier step is called 'sorce' (did you mean 'source'?)",
        ),
        (pipeline("SELECT 1 AS id"), "p.yaml:4: transform: the result has nothing of a source that goes on arriving"),
        (pipeline("SELECT sm(id) FROM source"), "p.yaml:4:19: transform[0].sql: no function is called 'sm'"),
        (
            pipeline("SELECT id FRM source"),
            "p.yaml:4:26: transform[0].sql: the SQL does not parse at 'source': extra input 'source'",
        ),
        (
            pipeline("WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a"),
            "p.yaml:4: transform[0].sql: expected a query; a transform must not change anything",
        ),
        (
            pipeline("|\n  SELECT id,\n    amuont\n  FROM source"),
            "p.yaml:6:5: transform[0].sql: no column is called 'amuont' (did you mean 'amount'?)",
        ),
        (
            pipeline("[{a: SELECT id FROM source}, SELECT amount FROM a]"),
            "p.yaml:4:48: transform[1].sql: no column is called 'amount'; there are id",
        ),
        (
            pipeline(more="expect: {positive: amont > 0}"),
            "p.yaml:5:20: expect.positive: no column is called 'amont' (did you mean 'amount'?)",
        ),
        (
            pipeline(more="expect: {positive: amount}"),
            "p.yaml:5: expect.positive: expected a condition that is true or false, got DOUBLE",
        ),
        (
            pipeline(source=", timestamp: att, watermark: 1 hour"),
            "p.yaml:2: source.timestamp: no column is called 'att' (did you mean 'at'?)",
        ),
        (
            pipeline(source=", timestamp: id, watermark: 1 hour"),
            "p.yaml:2: source.timestamp: 'id' is BIGINT; event time is a TIMESTAMP",
        ),
        (pipeline(source=", dedupe: [ids]"), "p.yaml:2: source.dedupe: no column is called 'ids' (did you mean 'id'?)"),
        (
            pipeline(sink="{table: t, url: 'sqlite:///t.db', key: [custmer]}"),
            "p.yaml:3: sink.key: no column is called 'custmer' (did you mean 'customer'?)",
        ),
        (
            pipeline(sink="{files: out/, partition_by: day}"),
            "p.yaml:3: sink.partition_by: no column is called 'day'; there are id, customer, amount, at",
        ),
        (
            pipeline(sink="{topic: t, format: text}"),
            "p.yaml:3: sink.format: format text writes the column 'value', and there is none: name one as sink.value",
        ),
        (
            pipeline(sink="{topic: t, partition: customer}"),
            "p.yaml:3: sink.partition: expected a whole number, got STRING",
        ),
        (
            pipeline().replace("id BIGINT,", "id BIGNT,"),
            'p.yaml:2: source.schema: expected columns as in CREATE TABLE: Unsupported data type "BIGNT"',
        ),
    ],
)
def test_a_mistake_in_sql_is_one_line(spark: SparkSession, text: str, expected: str) -> None:
    assert problems(spark, text) == [expected]


@pytest.mark.parametrize("sink", [APPEND, "{topic: t}", "{files: out/}"])
def test_an_aggregation_without_a_watermark_cannot_be_appended(spark: SparkSession, sink: str) -> None:
    [found] = problems(spark, pipeline(TOTALS, sink))
    assert found.startswith("p.yaml:3: sink: rows of an aggregation change until a watermark closes them")


def documented(page: Path) -> list[tuple[str, str]]:
    """The files that the blocks of a page write."""
    return re.findall(r"^cat > (\S+) <<'EOF'\n(.*?)^EOF$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_the_pipelines_of_the_documentation_are_right(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "secret")
    monkeypatch.syspath_prepend(tmp_path)
    files = documented(ROOT / "docs" / "pipelines.md")
    for name, text in files:
        (tmp_path / name).write_text(text)
    pipelines = [load_pipeline(tmp_path / name) for name, _ in files if name.endswith(".yaml")]
    assert len(pipelines) >= 5
    for found in pipelines:
        assert check_with_spark(found.spec, spark, found.origin, tmp_path) == Findings()


def test_a_mistake_does_not_hide_one_that_follows(spark: SparkSession) -> None:
    found = problems(spark, pipeline("[{a: SELECT x FROM source}, {b: SELECT FROM a WHERE (}]"))
    assert [line.split(": ")[1] for line in found] == ["transform[0].sql", "transform[1].sql"]


def test_without_a_schema_sql_is_parsed_and_a_note_says_so(spark: SparkSession) -> None:
    text = "name: x\nsource: {topic: a}\nsink: {topic: t}\ntransform: SELECT anything FROM source\n"
    found = check(spark, text)
    assert found.problems == []
    assert "only checked for syntax" in str(found.notes[0])
    assert "does not parse" in problems(spark, text.replace("SELECT anything", "SELECT (anything"))[0]


def test_keys_that_are_remembered_for_ever_are_worth_a_note(spark: SparkSession) -> None:
    [note] = check(spark, pipeline(source=", dedupe: [id]")).notes
    assert str(note) == (
        "p.yaml:2: source.dedupe: without a watermark, every key is remembered for ever: give the source a timestamp"
        " and a watermark"
    )


@pytest.mark.parametrize(
    ("transform", "timed", "said"),
    [
        ("SELECT a.id FROM a JOIN b ON a.id = b.id", False, "the join keeps every row of both streams"),
        # A watermark alone does not bound it: nothing says how far apart the two rows may be.
        ("SELECT a.id FROM a JOIN b ON a.id = b.id", True, "the join keeps every row of both streams"),
        ("SELECT a.id FROM a JOIN b ON a.id = b.id AND b.at BETWEEN a.at AND a.at + INTERVAL 1 HOUR", True, None),
        ("SELECT a.id FROM a JOIN c ON a.id = c.id", False, None),
        ("SELECT window(at, '1 hour') AS hour, count(*) AS n FROM a GROUP BY 1", False, "every window and every time"),
        ("SELECT window(at, '1 hour') AS hour, count(*) AS n FROM a GROUP BY 1", True, None),
        ("SELECT id, count(*) AS n FROM a GROUP BY id", False, None),
        ("SELECT DISTINCT id, at FROM a", False, "every window and every time"),
    ],
)
def test_state_that_grows_for_ever_is_worth_a_note(
    spark: SparkSession, transform: str, timed: bool, said: str | None
) -> None:
    keys = ", timestamp: at, watermark: 1 hour" if timed else ""
    found = check(
        spark,
        "name: p\n"
        "sources:\n"
        f"  a: {{topic: a, schema: 'id INT, at TIMESTAMP'{keys}}}\n"
        f"  b: {{topic: b, schema: 'id INT, at TIMESTAMP'{keys}}}\n"
        "  c: {files: c, static: true, schema: 'id INT'}\n"
        f"transform: {transform}\n"
        "sink: {table: t, url: 'sqlite:///t.db', mode: append}\n"
        f"{'' if 'JOIN' in transform else 'output_mode: update'}\n",
    )
    notes = [str(note) for note in found.notes]
    assert (notes == []) if said is None else (len(notes) == 1 and said in notes[0]), notes


FUNCTIONS = """
def keep(rows):
    return rows.where("amount > 0")

def both(frames):
    return frames["source"].join(frames["names"], "customer")

def nothing(rows):
    rows.where("amount > 0")

def fails(rows):
    raise KeyError("no such thing")

def misspells(rows):
    return rows.select("custmer")

def store(rows):
    pass
"""


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("{python: 'FUNCTIONS:keep'}", []),
        ("[{names: SELECT DISTINCT customer FROM source}, {python: 'FUNCTIONS:both', inputs: [source, names]}]", None),
        (
            "{python: 'FUNCTIONS:nothing'}",
            ["p.yaml:4: transform[0].python: FUNCTIONS:nothing returned NoneType, not a DataFrame"],
        ),
        ("{python: 'FUNCTIONS:fails'}", ["p.yaml:4: transform[0].python: raised KeyError: 'no such thing'"]),
        (
            "{python: 'FUNCTIONS:misspells'}",
            ["p.yaml:4: transform[0].python: no column is called 'custmer' (did you mean 'customer'?)"],
        ),
        (
            "{python: 'FUNCTIONS:kep'}",
            ["p.yaml:4: transform[0].python: the module FUNCTIONS has no function kep (did you mean 'keep'?)"],
        ),
    ],
)
def test_functions_are_called_on_streams_without_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, expected: list[str] | None
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    name = f"functions_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(FUNCTIONS)
    sink = "{console: true}"
    found = problems(spark, pipeline(step.replace("FUNCTIONS", name), sink), tmp_path)
    if expected is not None:
        assert found == [line.replace("FUNCTIONS", name) for line in expected]
    else:  # Spark has its own opinion of joining a stream with an aggregation of itself; both inputs have arrived
        assert "raised" not in " ".join(found)


def test_a_function_sink_takes_what_its_guarantee_needs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    name = f"sinks_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(FUNCTIONS)
    sink = f"{{python: '{name}:store', idempotent: true}}"
    assert problems(spark, pipeline(sink=sink), tmp_path) == []
    assert problems(spark, pipeline(sink=sink, more="guarantee: exactly_once"), tmp_path) == [
        "p.yaml:3: sink.python: the function must take the DataFrame and the batch id"
    ]


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        (pipeline(TOTALS, UPSERT), "update"),
        (pipeline(WINDOWS, UPSERT, EVENT_TIME), "update"),
        (pipeline(WINDOWS, APPEND, EVENT_TIME), "append"),
        (pipeline(), "append"),
        (pipeline(TOTALS, "{console: true}"), "update"),
        (pipeline(TOTALS, "{topic: t}", more="output_mode: complete"), "complete"),
    ],
)
def test_the_output_mode_follows_from_the_sink(spark: SparkSession, text: str, mode: str) -> None:
    from penstock.pipeline.analysis import empty_rows

    spec = parse_pipeline(text, "p.yaml", {}).spec
    session = spark.newSession()
    sources = {name: empty_rows(session, source, source.columns or "") for name, source in spec.all_sources.items()}
    assert output_mode(spec, apply_transform(session, spec, sources, Path())) == mode


def test_a_program_is_checked_up_to_its_run(spark: SparkSession) -> None:
    from penstock import Pipeline, Table, Topic

    with checking(lambda: spark) as checked:
        mine = Pipeline("revenue", guarantee="exactly_once")
        orders = mine.read(Topic("orders", schema="id BIGINT, customer STRING, amount DOUBLE"))
        names = mine.read(Table("sqlite:///n.db", "names", schema="customer STRING, name STRING"), name="names")
        assert [orders.isStreaming, names.isStreaming] == [True, False]
        totals = orders.groupBy("customer").sum("amount")
        mine.write(totals, Table("sqlite:///revenue.db", "revenue", key=["custmer"]))
        with pytest.raises(ProgramChecked):
            mine.run()
    assert checked.pipelines == [mine]
    plan = mine.plan()
    assert plan.results == {None: totals}
    assert list(plan.spec.all_sources) == ["source", "names"]
    [problem] = check_plan_with_spark(plan, mine.origin).problems
    assert problem.file == __file__
    assert (problem.key, problem.message) == ("sink.key", "no column is called 'custmer' (did you mean 'customer'?)")


def test_a_function_of_the_program_itself_may_be_a_sink(spark: SparkSession) -> None:
    from penstock import Pipeline, PythonSink, Topic

    def store(rows: object, batch_id: int) -> None: ...

    store.__qualname__ = "store"  # as if it stood at the top of a program
    store.__module__ = "__main__"
    with checking(lambda: spark):
        mine = Pipeline("store", guarantee="exactly_once")
        mine.write(mine.read(Topic("orders", schema="id BIGINT")), PythonSink(store, idempotent=True))
        plan = mine.plan()
    assert plan.functions == {None: store}
    assert check_plan_with_spark(plan, mine.origin) == Findings()
