"""What a person is told about a pipeline file: one line for each mistake, with its line, key and remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.core.exit_codes import ExitCode
from penstock.pipeline.declaration.spec_errors import InvalidPipeline
from penstock.pipeline.declaration.spec_file import load_pipeline, parse_pipeline
from penstock.pipeline.sinks.table.declaration import TableSink

GOOD = """\
name: revenue
guarantee: exactly_once
source: {topic: orders, format: json, schema: "id BIGINT, customer STRING, amount DOUBLE"}
transform: SELECT customer, sum(amount) AS revenue FROM source GROUP BY customer
sink: {table: revenue, url: "sqlite:///revenue.db", mode: upsert, key: [customer]}
on_error: {dead_letters: revenue.dlq}
"""
SMALL = "name: x\nsource: {topic: a}\nsink: {topic: b}\n"


def mistakes(text: str, **environment: str) -> list[str]:
    with pytest.raises(InvalidPipeline) as raised:
        parse_pipeline(text, "p.yaml", environment)
    assert raised.value.exit_code is ExitCode.INVALID_PIPELINE
    return str(raised.value).splitlines()


def test_the_documented_pipeline_is_read() -> None:
    spec = parse_pipeline(GOOD, "p.yaml", {}).spec
    assert (spec.name, spec.guarantee, spec.dead_letter_topic) == ("revenue", "exactly_once", "revenue.dlq")
    assert list(spec.all_sources) == ["source"]
    assert spec.transform[0].name is None
    assert isinstance(spec.sink, TableSink)
    assert (spec.sink.mode, spec.sink.key) == ("upsert", ("customer",))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("upsert", "upsrt", "p.yaml:5: sink.mode: 'upsrt' is not one of append, upsert (did you mean 'upsert'?)"),
        ("{topic:", "{tpoic:", "p.yaml:3: source.tpoic: unknown key (did you mean 'topic'?)"),
        ("dead_letters", "deadletter", "p.yaml:6: on_error.deadletter: unknown key (did you mean 'dead_letters'?)"),
        (
            "{dead_letters: revenue.dlq}",
            "stpo",
            "p.yaml:6: on_error: 'stpo' is not one of stop, drop (did you mean 'stop'?)",
        ),
        (
            "{dead_letters: revenue.dlq}",
            "[x]",
            "p.yaml:6: on_error: expected stop, drop or {dead_letters: ...}, got a list",
        ),
        (
            "exactly_once",
            "exactly_one",
            "p.yaml:2: guarantee: 'exactly_one' is not one of at_most_once, at_least_once, exactly_once"
            " (did you mean 'exactly_once'?)",
        ),
        ("name: revenue", "name: 5", "p.yaml:1: name: expected text, got the number 5"),
        ("name: revenue", "name: true", "p.yaml:1: name: expected text, got true"),
        (
            "name: revenue",
            "name: a/b",
            "p.yaml:1: name: a pipeline's name becomes a group and a directory: letters,"
            " digits, '.', '_', '-', at most 200",
        ),
        ("name: revenue\n", "", "p.yaml:1: name: is missing"),
        ("key: [customer]", "key: []", "p.yaml:5: sink.key: is empty"),
        (
            ", key: [customer]",
            "",
            "p.yaml:5: sink.key: mode upsert replaces rows by key: name the columns, as in key: [id]",
        ),
        (
            "mode: upsert",
            "mode: append",
            "p.yaml:5: sink.key: mode append replaces nothing by key; remove it, or set mode: upsert",
        ),
        (
            "revenue.dlq",
            "orders",
            "p.yaml:6: on_error.dead_letters: the pipeline reads 'orders' and would feed"
            " itself for ever; name another topic",
        ),
        (
            "sqlite:///revenue.db",
            "sqlite:///:memory:",
            "p.yaml:5: sink.url: a SQLite database in memory cannot remember what was committed; name a file",
        ),
        (
            "sqlite:///revenue.db",
            "oracle://root:hunter2@h/d",
            "p.yaml:5: sink.url: databases are sqlite, postgresql and mysql, not 'oracle'",
        ),
        (
            "SELECT customer",
            "DROP TABLE customer; SELECT customer",
            "p.yaml:4: transform[0].sql: expected a SQL query, such as SELECT ...; a function"
            " is {python: 'module:function'}",
        ),
        (
            '{topic: orders, format: json, schema: "id BIGINT, customer STRING, amount DOUBLE"}',
            "orders",
            "p.yaml:3: source: expected {topic: ...}, {files: ...} or {table: ..., url: ...}, got the text 'orders';"
            " write source: {topic: orders}",
        ),
    ],
)
def test_a_mistake_is_one_line_with_its_place_and_remedy(before: str, after: str, expected: str) -> None:
    assert before in GOOD
    assert mistakes(GOOD.replace(before, after)) == [expected]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("bootstrap_server: x", "p.yaml:4: bootstrap_server: unknown key (did you mean 'bootstrap_servers'?)"),
        (
            "trigger: {interval: 1s}",
            "p.yaml:4: trigger.interval: '1s' is not a duration such as '10 seconds', '5 minutes' or '1 hour'",
        ),
        (
            "spark: {sql.shuffle.partitions: 4}",
            "p.yaml:4: spark.sql.shuffle.partitions: settings of Spark begin with 'spark.'"
            " (did you mean 'spark.sql.shuffle.partitions'?)",
        ),
        ("spark: {spark.x: [1]}", "p.yaml:4: spark.spark.x: expected text, a number, true or false"),
        ("name: y", "p.yaml:4: name: is given twice, first in line 1; remove one"),
        ("sources: {a: {topic: c}}", "p.yaml:4: sources: give either source or sources"),
        ("output_mode: ${MODE}", "p.yaml:4: output_mode: the environment variable MODE is not set"),
        ("[1, 2]: 3", "p.yaml:4: a key is one word, not a list or a mapping"),
        (
            "transform: [{a: SELECT 1}, {a: SELECT 2}]",
            "p.yaml:4: transform[1]: the name 'a' is taken; steps and sources need different ones",
        ),
        (
            "transform: [{a: SELECT 1}, {python: 'm:f', inputs: [b]}]",
            "p.yaml:4: transform[1].inputs: no source or earlier step is called 'b'; there are source, a",
        ),
        (
            "transform: {python: mf}",
            "p.yaml:4: transform[0].python: 'mf' is not a reference to a function such as 'my_module:my_function'",
        ),
        (
            "on_error: {dead_letters: b}",
            "p.yaml:4: on_error.dead_letters: is the topic of the sink; bad rows need one of their own",
        ),
        ("a: &a [*a]", "p.yaml:4: a[0]: an alias or a nesting without end"),
        ("a: !!int x", "p.yaml:4: a: cannot be read: invalid literal for int() with base 10: 'x'"),
        (
            "\tb: 1",
            "p.yaml:4:1: not YAML: while scanning for the next token, found character '\\t'"
            " that cannot start any token",
        ),
    ],
)
def test_a_mistake_among_the_other_keys_too(more: str, expected: str) -> None:
    assert mistakes(SMALL + more + "\n") == [expected]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{topic: a, watermark: 1 hour}", "source.watermark: needs `timestamp`, the column with the event time"),
        ("{topic: a, topic_pattern: a.*}", "source.topic_pattern: give either topic or topic_pattern"),
        (
            "{topic_pattern: '['}",
            "source.topic_pattern: not a regular expression: unterminated character set at position 0",
        ),
        (
            "{topic_pattern: '.*'}",
            "sink.topic: the pipeline reads 'b' and would feed itself for ever; name another topic",
        ),
        (
            "{topic: a, format: text, schema: x INT}",
            "source.schema: format text has the columns value STRING; take it out",
        ),
        (
            "{topic: a, starting_offsets: erliest}",
            "source.starting_offsets: 'erliest' is not one of earliest, latest (did you mean 'earliest'?)",
        ),
        (
            "{topic: a, max_offsets_per_trigger: 0}",
            "source.max_offsets_per_trigger: must be more than 0, got the number 0",
        ),
        (
            "{topic: a, max_offsets_per_trigger: many}",
            "source.max_offsets_per_trigger: expected a whole number, got the text 'many'",
        ),
        (
            "{topic: a, include: [kye]}",
            "source.include[0]: 'kye' is not one of key, topic, partition, offset, timestamp,"
            " headers (did you mean 'key'?)",
        ),
        ("{topic: a, options: {subscribe: x}}", "source.options.subscribe: has a key of its own: topic"),
        (
            "{topic: a, options: {kafka.bootstrap.servers: x}}",
            "source.options.kafka.bootstrap.servers: has a key of its own: bootstrap_servers",
        ),
        ("{topic: a b}", "source.topic[0]: 'a b' is not a topic name: letters, digits, '.', '_', '-', at most 249"),
        (
            "{table: t, url: 'sqlite:///t.db'}",
            "source: nothing here goes on arriving: a pipeline needs a topic or files to read",
        ),
        (
            "{files: in/, static: true}",
            "source: nothing here goes on arriving: a pipeline needs a topic or files to read",
        ),
        ("{files: in/, static: mayby}", "source.static: expected true or false, got the text 'mayby'"),
    ],
)
def test_a_mistake_in_a_source(source: str, expected: str) -> None:
    [found] = mistakes(f"name: x\nsource: {source}\nsink: {{topic: b}}\n")
    assert found.split(": ", 1)[1] == expected


@pytest.mark.parametrize(
    ("sink", "expected"),
    [
        ("{console: false}", "sink.console: can only be true"),
        ("{consle: true}", "sink.consle: unknown key (did you mean 'console'?)"),
        (
            "{topic: b, value: x}",
            "sink.value: format json writes all columns; SELECT those that you want, and remove it",
        ),
        (
            "{topic: b, options: {kafka.transactional.id: x}}",
            "sink.options.kafka.transactional.id: is the pipeline's own, made of its name; remove it",
        ),
        ("{topic: a}", "sink.topic: the pipeline reads 'a' and would feed itself for ever; name another topic"),
        ("{files: out/, format: orc}", "sink.format: 'orc' is not one of parquet, json, csv"),
        ("{python: store}", "sink.python: 'store' is not a reference to a function such as 'my_module:my_function'"),
        ("{table: t}", "sink.url: is missing"),
        (
            "{table: t, url: postgresql://h}",
            "sink.url: a PostgreSQL URL names a database: 'postgresql://user@host/database'",
        ),
    ],
)
def test_a_mistake_in_a_sink(sink: str, expected: str) -> None:
    [found] = mistakes(f"name: x\nsource: {{topic: a}}\nsink: {sink}\n")
    assert found == f"p.yaml:3: {expected}"


def test_all_mistakes_are_told_in_the_order_of_their_lines() -> None:
    text = "sink: {consle: true}\nsource: {topic: a, format: jsn}\nname: 5\n"
    assert [line.split(": ")[0] for line in mistakes(text)] == ["p.yaml:1", "p.yaml:2", "p.yaml:3"]


def test_several_sources_need_a_transform() -> None:
    text = "name: x\nsources:\n  a: {topic: a}\n  b: {topic: b}\nsink: {topic: c}\n"
    assert mistakes(text) == ["p.yaml:2: sources: several sources need a transform that makes one result of them"]


@pytest.mark.parametrize("text", ["", "# nothing\n", "--- \n"])
def test_an_empty_file_is_told_what_it_lacks(text: str) -> None:
    assert mistakes(text) == ["p.yaml: is empty; a pipeline has at least name, source and sink"]


def test_a_list_is_no_pipeline() -> None:
    assert mistakes("- 1\n") == ["p.yaml:1: expected the keys of a pipeline, such as name, source and sink"]


def test_aliases_of_aliases_do_not_fill_the_memory() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    [found] = mistakes("\n".join(lines))
    assert found.endswith("an alias or a nesting without end")


def test_a_deep_nesting_is_a_mistake_and_no_crash() -> None:
    [found] = mistakes("a: " + "[" * 5000 + "]" * 5000)
    assert "nest" in found


def test_a_merged_mapping_is_read() -> None:
    text = "name: x\nsources:\n  a: &a {topic: a, format: text}\n  b: {<<: *a, topic: b}\n"
    spec = parse_pipeline(text + "transform: SELECT 1\nsink: {topic: c}\n", "p.yaml", {}).spec
    assert spec.sources is not None
    assert [source.columns for source in spec.sources.values()] == ["value STRING"] * 2


def test_variables_come_from_the_environment() -> None:
    text = SMALL + "bootstrap_servers: ${HOST}:${PORT:-9092}\ncheckpoint: $${HOST}\n"
    spec = parse_pipeline(text, "p.yaml", {"HOST": "kafka"}).spec
    assert (spec.bootstrap_servers, spec.checkpoint) == ("kafka:9092", "${HOST}")


@pytest.mark.parametrize(
    "text",
    [
        "name: x\nsource: {topic: a, format: '${SECRET}'}\nsink: {topic: b}\n",
        "name: x\nsource: {topic: a}\nsink: {table: t, url: 'postgresql://u:${SECRET}@h'}\n",
        "name: x\nsource: {topic: a}\nsink: {table: t, url: 'oracle://u:${SECRET}@h/d'}\n",
        "name: x\nsource: {topic: '${SECRET} b'}\nsink: {topic: b}\n",
        "name: ${SECRET}/x\nsource: {topic: a}\nsink: {topic: b}\n",
        "name: x\nsource: ${SECRET}\nsink: {topic: b}\n",
        "name: x\nsource: {topic: a, watermark: '${SECRET}'}\nsink: {topic: b}\n",
        "name: x\nsource: {topic: a, options: {kafka.sasl.password: '${SECRET}', subscribe:"
        " '${SECRET}'}}\nsink: {topic: b}\n",
    ],
)
def test_what_a_variable_holds_is_never_shown(text: str) -> None:
    assert "hunter2" not in " ".join(mistakes(text, SECRET="hunter2"))


def test_a_good_pipeline_hides_its_secrets_from_its_repr() -> None:
    text = (
        "name: x\nsource: {topic: a, options: {kafka.sasl.password: '${SECRET}'}}\n"
        "sink: {table: t, url: 'postgresql://u:${SECRET}@h/d'}\n"
    )
    pipeline = parse_pipeline(text, "p.yaml", {"SECRET": "hunter2"})
    assert isinstance(pipeline.spec.sink, TableSink)
    assert pipeline.spec.sink.url == "postgresql://u:hunter2@h/d"
    assert "hunter2" not in repr(pipeline.spec)


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidPipeline, match=r"nowhere\.yaml: cannot be read: No such file or directory"):
        load_pipeline(tmp_path / "nowhere.yaml")
    with pytest.raises(InvalidPipeline, match="cannot be read: Is a directory"):
        load_pipeline(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"name: x\nsource: \xe4\n")
    with pytest.raises(InvalidPipeline, match=r"latin\.yaml:2: is not UTF-8 text"):
        load_pipeline(tmp_path / "latin.yaml")
    (tmp_path / "control.yaml").write_bytes(b"name: x\nsource: \x01\n")
    with pytest.raises(InvalidPipeline, match=r"control\.yaml:2: not YAML: the character"):
        load_pipeline(tmp_path / "control.yaml")


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        ("transform: SELECT x", "p.yaml:1:19: transform[0].sql: m"),
        ('transform: "SELECT x"', "p.yaml:1:20: transform[0].sql: m"),
        ("transform: |\n   SELECT x\n", "p.yaml:2:11: transform[0].sql: m"),
        ("transform:\n- cleaned: SELECT x\n- SELECT 1", "p.yaml:2:19: transform[0].sql: m"),
        ("transform: >\n   SELECT\n   x\n", "p.yaml:1: transform[0].sql: m (line 1, position 8 of the SQL)"),
        ('transform: "SELECT \\u0078"', "p.yaml:1: transform[0].sql: m (line 1, position 8 of the SQL)"),
        ("transform: SELECT ${X:-x}", "p.yaml:1: transform[0].sql: m (line 1, position 8 of the SQL)"),
    ],
)
def test_a_place_in_sql_is_a_place_in_the_file_where_that_is_known(transform: str, expected: str) -> None:
    rest = "\nname: x\nsource: {topic: a}\nsink: {topic: b}\n"
    origin = parse_pipeline(transform + rest, "p.yaml", {}).origin
    assert str(origin.problem_in_text(("transform", 0, "sql"), "m", 1, 7)) == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("source.topic: topic 'a' does not exist", "p.yaml:3: source.topic: topic 'a' does not exist"),
        ("sink: PostgreSQL refuses: hunter2", "p.yaml:4: sink: PostgreSQL refuses: ${SECRET}"),
        ("Spark has ended", "p.yaml: Spark has ended"),
        ("nothing: like a key", "p.yaml: nothing: like a key"),
    ],
)
def test_the_line_of_a_failure_is_that_of_the_key_it_begins_with(message: str, expected: str) -> None:
    text = "name: x\nsource:\n  topic: a\nsink: {table: t, url: 'postgresql://u:${SECRET}@h/d'}\n"
    assert parse_pipeline(text, "p.yaml", {"SECRET": "hunter2"}).origin.placed(message) == expected
