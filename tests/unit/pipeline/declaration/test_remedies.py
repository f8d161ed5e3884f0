"""Mistakes of which it is plain what was meant: the line says how to write it."""

from __future__ import annotations

import pytest

from penstock.pipeline.declaration.remedies import duration_meant
from penstock.pipeline.declaration.spec_errors import InvalidPipeline
from penstock.pipeline.declaration.spec_file import parse_pipeline

SOURCE = "source: {topic: a}\n"
SINK = "sink: {topic: b}\n"


def mistake(text: str) -> str:
    with pytest.raises(InvalidPipeline) as raised:
        parse_pipeline(f"name: x\n{text}", "p.yaml", {})
    [problem] = raised.value.problems
    return str(problem).removeprefix("p.yaml:")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("5 seconds", "5 seconds"),
        ("5s", "5 seconds"),
        ("1 min", "1 minute"),
        ("100 ms", "100 milliseconds"),
        ("every 2 hours", "2 hours"),
        ("available", None),
        ("5 bananas", None),
    ],
)
def test_durations(text: str, meant: str | None) -> None:
    assert duration_meant(text) == meant


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            SOURCE + SINK + "trigger: 5 seconds\n",
            "4: trigger: '5 seconds' is not one of available_now, once; for a micro-batch every 5 seconds, write"
            " {interval: 5 seconds}",
        ),
        (
            SOURCE + SINK + "trigger: 500ms\n",
            "4: trigger: '500ms' is not one of available_now, once; for a micro-batch every 500 milliseconds, write"
            " {interval: 500 milliseconds}",
        ),
        (
            SOURCE + SINK + "trigger: {interval: 5}\n",
            "4: trigger.interval: expected text, got the number 5; it has a unit, as in '5 seconds'",
        ),
        (
            SOURCE + SINK + "on_error: a.dlq\n",
            "4: on_error: 'a.dlq' is not one of stop, drop; to send bad rows to a topic, write {dead_letters: a.dlq}",
        ),
        (
            SOURCE + SINK + "on_error: dead_letters\n",
            "4: on_error: 'dead_letters' is not one of stop, drop; to send bad rows to a topic, write"
            " {dead_letters: TOPIC}",
        ),
        (SOURCE + SINK + "interval: 5 seconds\n", "4: interval: unknown key here; it belongs below trigger, as in"),
        (SOURCE + SINK + "dead_letters: dlq\n", "4: dead_letters: unknown key here; it belongs below on_error, as in"),
        (SOURCE + SINK + "watermark: 1 hour\n", "4: watermark: unknown key here; it belongs below source, as in"),
        (SOURCE + SINK + "mode: upsert\n", "4: mode: unknown key here; it belongs below sink, as in sink: {mode: ...}"),
        (
            "source: {topic: a, guarantee: exactly_once}\n" + SINK,
            "2: source.guarantee: unknown key here; it stands at the top level, beside source: move it out of source",
        ),
        (
            SOURCE + "sink: {topic: b, on_error: drop}\n",
            "3: sink.on_error: unknown key here; it stands at the top level, beside sink: move it out of sink",
        ),
        (
            SOURCE + "sink: {topic: b, schema: id INT}\n",
            "3: sink.schema: unknown key here; it is a key of a source, not of a sink",
        ),
        (
            "source: {topic: a, partition_by: id}\n" + SINK,
            "2: source.partition_by: unknown key here; it is a key of a sink, not of a source",
        ),
        ("source: orders\n" + SINK, "2: source: expected"),
        (SOURCE + "sink: console\n", "3: sink: expected"),
        (
            "source: {topic: a, schema: {id: BIGINT, name: STRING}}\n" + SINK,
            "2: source.schema: expected text, got a mapping with the keys id, name; write the columns as in"
            " CREATE TABLE: schema: 'id BIGINT, name STRING'",
        ),
        (
            SOURCE + SINK + "expect: amount > 0\n",
            "4: expect: expected a mapping of names to values, got the text 'amount > 0'; give the condition a name, as"
            " in expect: {RULE: 'amount > 0'}",
        ),
        (
            SOURCE + "sinks: {topic: b}\n",
            "3: sinks: has a name for each sink, as in sinks: {NAME: {...}}; a single one is written as sink: {...}",
        ),
        (
            SOURCE + "sinks:\n- {topic: b}\n",
            "3: sinks: expected a name for each sink, as in sinks: {NAME: {...}}, got a list",
        ),
        (
            SOURCE + "sink:\n  one: {topic: b}\n  two: {topic: c}\n",
            "3: sink: expected {topic: ...}, {table: ..., url: ...}, {files: ...}, {console: true} or {python: ...},"
            " got a mapping with the keys one, two; several are sinks: {one: {...}, two: {...}}",
        ),
        (
            "sources: {topic: a}\n" + SINK,
            "2: sources: has a name for each source, as in sources: {NAME: {...}}; a single one is written as"
            " source: {...}",
        ),
    ],
)  # fmt: skip
def test_the_line_says_how_to_write_it(text: str, expected: str) -> None:
    assert mistake(text).startswith(expected), mistake(text)


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("source: orders\n" + SINK, "write source: {topic: orders}"),
        ("source: incoming/\n" + SINK, "write source: {files: incoming/}"),
        (SOURCE + "sink: console\n", "write sink: {console: true}"),
        (SOURCE + "sink: out.parquet\n", "write sink: {files: out.parquet}"),
        (SOURCE + "sink: my_module:store\n", "write sink: {python: 'my_module:store'}"),
        (SOURCE + "sinks: {one: orders}\n", "write one: {topic: orders}"),
        ("source: [a, b]\n" + SINK, "several are sources: {NAME: {...}, ...}"),
    ],
)
def test_a_text_where_a_mapping_belongs(text: str, remedy: str) -> None:
    assert mistake(text).endswith(remedy), mistake(text)


def test_a_variable_in_a_flow_mapping_needs_quotes() -> None:
    found = mistake(SOURCE + "sink: {topic: ${TOPIC}}\n")
    assert found.startswith("3:16: not YAML: ")
    assert found.endswith("; inside { } and [ ] a variable needs quotes, as in '${NAME}'")
    assert "quotes" not in mistake(SOURCE + "sink: {topic: [}\n")


def test_a_text_from_the_environment_stays_secret() -> None:
    with pytest.raises(InvalidPipeline) as raised:
        parse_pipeline("name: x\nsource: '${SECRET}'\nsink: {topic: b}\n", "p.yaml", {"SECRET": "hunter2"})
    assert "hunter2" not in str(raised.value)
