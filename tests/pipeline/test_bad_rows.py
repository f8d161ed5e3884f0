"""What makes a row bad, and what a bad row's reason says: bytes, types, expressions of the transform.

Each run shows many points at once: a row each.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.pipeline.api import PipelinePlan
from penstock.pipeline.declaration.spec_file import parse_pipeline
from penstock.pipeline.failure import PipelineFailed
from penstock.pipeline.run import PipelineRun
from tests.pipeline.pipeline_runs import Found, Pipelines, of_kind

NOT_UTF8 = b'{"word": "caf\xe9", "id": 1}'


def text(value: bytes) -> str:
    """As `Pipelines.records` has it."""
    return value.decode("utf-8", "surrogateescape")


def reasons(pipelines: Pipelines, letters: str) -> dict[str | None, str | None]:
    return {letter.value: letter.headers["penstock.reason"] for letter in pipelines.records(letters)}


def test_json_that_a_parser_would_change_is_bad_and_kept_as_it_is(pipelines: Pipelines) -> None:
    numbers, letters = pipelines.topic("numbers", partitions=1), pipelines.name("letters")
    good: dict[bytes, Any] = {
        b'{"id": 1, "word": "caf\xc3\xa9"}': {"id": 1, "word": "café"},
        b'{"id": 2, "word": "\\ud83d\\ude00"}': {"id": 2, "word": "😀"},
        b'{"id": 3, "word": "\\\\ud83d"}': {"id": 3, "word": "\\ud83d"},
        b'{"id": 4, "word": "\xef\xbf\xbd"}': {"id": 4, "word": "\ufffd"},
        b'{"id": 5, "tiny": 127, "ratio": "Infinity"} \n': {"id": 5, "tiny": 127, "ratio": "Infinity"},
        b'{"id": 6, "tiny": -128, "small": -32768}': {"id": 6, "tiny": -128, "small": -32768},
        b'{"id": 7, "word": "}{", "more": {"a": [{}, {}]}}': {"id": 7, "word": "}{"},
    }
    bad = {
        NOT_UTF8: 'the value is not valid UTF-8 at character 14: \'{"word": "caf\ufffd", "id": 1}\'',
        b'{"id": 11, "word": "\\ud800"}': 'the value has half of a surrogate pair: \'{"id": 11, "word": "\\ud800"}\'',
        b'{"id": 12, "word": "\\ude00x"}': 'the value has half of a surrogate pair: \'{"id": 12, "word": "\\ude00x"}\'',
        b'{"id": 13, "tiny": 200}': "column 'tiny' is TINYINT as declared, got '200'",
        b'{"id": 14, "small": 40000}': "column 'small' is SMALLINT as declared, got '40000'",
        b'{"id": 99999999999999999999}': "column 'id' is BIGINT as declared, got '99999999999999999999'",
        b'{"id": 15, "day": "2024-02-30"}': "column 'day' is DATE as declared, got '2024-02-30'",
        b'{"id": 16, "price": 123456.78}': "column 'price' is DECIMAL(5,2) as declared, got '123456.78'",
        b'{"id": 17, "ratio": 1e400}': "column 'ratio' is DOUBLE as declared, got '1e400'",
        b'\xef\xbb\xbf{"id": 18}': "the value is not a JSON object: '\ufeff{\"id\": 18}'",
        b'{"id": 19} {"id": 20}': 'the value has more than one JSON object: \'{"id": 19} {"id": 20}\'',
        b'{"id": 19} nonsense': "the value has more than one JSON object: '{\"id\": 19} nonsense'",
        b'{"id": 20, "at": 1700000000000}': "column 'at' is TIMESTAMP as declared, got '1700000000000', not in the"
        " years 1 to 9999; a number is in seconds",
        b"[1, 2]": "the value is not a JSON object: '[1, 2]'",
        b"word" * 30: "the value is not a JSON object: '" + "word" * 15 + "...'",
    }
    pipelines.send(numbers, [*good, *bad])
    pipelines.once(f"""
        name: {pipelines.name("checked")}
        guarantee: exactly_once
        source:
          topic: {numbers}
          schema: id BIGINT, word STRING, tiny TINYINT, small SMALLINT, day DATE, price DECIMAL(5,2), ratio DOUBLE,
            at TIMESTAMP
        transform: SELECT * FROM source
        sink: {{topic: {pipelines.name("good")}}}
        on_error: {{dead_letters: {letters}}}
    """)
    written = [
        {name: field for name, field in row.items() if field is not None}
        for row in pipelines.values(pipelines.name("good"))
    ]
    assert sorted(written, key=lambda row: row["id"]) == list(good.values())
    assert reasons(pipelines, letters) == {text(value): reason for value, reason in bad.items()}


def test_csv_text_and_keys_have_to_be_utf8_and_reasons_name_columns(pipelines: Pipelines) -> None:
    lines, letters = pipelines.topic("lines", partitions=1), pipelines.name("letters")
    bad = {
        b"x,one,2024-01-01": "column 'id' is INT as inferred, got 'x'",
        b"2,two,2024-13-01": "column 'day' is DATE as inferred, got '2024-13-01'",
        b"2,\xff,2024-01-01": "the value is not valid UTF-8 at character 3: '2,\ufffd,2024-01-01'",
        b"3,one,2024-01-01,more": "the value does not have the 3 inferred columns: '3,one,2024-01-01,more'",
        b"3,one": "the value does not have the 3 inferred columns: '3,one'",
        b"": "the value is empty",
    }
    pipelines.send(lines, [b"1,one,2024-01-01"])
    csv = f"""
        name: {pipelines.name("csv")}
        source: {{topic: {lines}, format: csv}}
        transform: SELECT _c0 AS id, _c1 AS word, _c2 AS day FROM source
        sink: {{topic: {pipelines.name("rows")}}}
        on_error: {{dead_letters: {letters}}}
    """
    pipelines.once(csv)
    pipelines.send(lines, bad)
    pipelines.once(csv)
    expected = {"id": "_c0", "word": "_c1", "day": "_c2"}
    said = {text(value): _renamed(reason, expected) for value, reason in bad.items()}
    assert reasons(pipelines, letters) == said
    assert pipelines.values(pipelines.name("rows")) == [{"id": 1, "word": "one", "day": "2024-01-01"}]


def _renamed(reason: str, names: dict[str, str]) -> str:
    for name, inferred in names.items():
        reason = reason.replace(f"'{name}'", f"'{inferred}'")
    return reason


def test_text_and_included_keys_have_to_be_utf8(pipelines: Pipelines) -> None:
    lines, letters = pipelines.topic("lines", partitions=1), pipelines.name("letters")
    pipelines.send(lines, ["fine", b"na\xefve"], key="k")
    producer_key = b"\xc3("
    pipelines.send(lines, ["by a broken key"], key=producer_key)
    pipelines.once(f"""
        name: {pipelines.name("text")}
        source: {{topic: {lines}, format: text, include: [key]}}
        transform: SELECT value, _key FROM source
        sink: {{topic: {pipelines.name("rows")}}}
        on_error: {{dead_letters: {letters}}}
    """)
    assert pipelines.values(pipelines.name("rows")) == [{"value": "fine", "_key": "k"}]
    assert reasons(pipelines, letters) == {
        text(b"na\xefve"): "the value is not valid UTF-8 at character 3: 'na\ufffdve'",
        "by a broken key": "the key is not valid UTF-8 at character 1: '\ufffd('",
    }
    [by_key] = [letter for letter in pipelines.records(letters) if letter.value == "by a broken key"]
    assert by_key.key == text(producer_key)


def test_files_whose_bytes_are_not_utf8_are_bad_rows(pipelines: Pipelines) -> None:
    letters = pipelines.name("letters")
    (pipelines.directory / "json").mkdir()
    (pipelines.directory / "json" / "a.json").write_bytes(NOT_UTF8 + b'\n{"id": 2, "word": "caf\xc3\xa9"}\nno json\n')
    (pipelines.directory / "csv").mkdir()
    (pipelines.directory / "csv" / "a.csv").write_bytes(b"id,word\n3,na\xefve\n4,fine\n")
    (pipelines.directory / "lines").mkdir()
    (pipelines.directory / "lines" / "a.txt").write_bytes(b"na\xefve\nfine\n")
    for name, source, rows in (
        ("json", 'files: json, schema: "id INT, word STRING"', [{"id": 2, "word": "café"}]),
        (
            "csv",
            'files: csv, format: csv, format_options: {header: true}, schema: "id INT, word STRING"',
            [{"id": 4, "word": "fine"}],
        ),
        ("lines", "files: lines, format: text", [{"value": "fine"}]),
    ):
        good = pipelines.name(f"good-{name}")
        pipelines.once(f"""
            name: {pipelines.name(name)}
            source: {{{source}}}
            sink: {{topic: {good}}}
            on_error: {{dead_letters: {letters}}}
        """)
        assert pipelines.values(good) == rows
    assert reasons(pipelines, letters) == {
        text(NOT_UTF8): 'the line is not valid UTF-8 at character 14: \'{"word": "caf\ufffd", "id": 1}\'',
        '{"id":3,"word":"na\ufffdve"}': "the line has U+FFFD in column 'word', as where bytes are not valid UTF-8:"
        " 'na\ufffdve'",
        "no json": "the line is not a JSON object: 'no json'",
        text(b"na\xefve"): "the line is not valid UTF-8 at character 3: 'na\ufffdve'",
    }
    [file] = [letter for letter in pipelines.records(letters) if letter.value == "no json"]
    assert (file.headers["penstock.topic"] or "").endswith("/json/a.json")


# Expressions of the transform


def row(number: int, amount: str, divisor: int = 1) -> dict[str, Any]:
    return {"id": number, "amount": amount, "divisor": divisor, "list": [1, 2]}


ROWS = [row(1, "10"), row(2, "abc"), row(3, "30", 0), row(4, "40", 9), row(5, "99999999999"), row(6, "60")]
SCHEMA = "id BIGINT, amount STRING, divisor INT, list ARRAY<INT>"


def by_id(letters: list[Found]) -> dict[int, dict[str, str | None]]:
    rows = [letter for letter in letters if letter.value != "no json"]
    return {json.loads(letter.value or "null")["id"]: letter.headers for letter in rows}


@pytest.mark.slow  # tests/conformance/sinks shows in `make test` that they are dead letters, once
@pytest.mark.parametrize("sink", ["topic", "table"])
def test_rows_for_which_the_transform_fails_become_dead_letters(pipelines: Pipelines, sink: str) -> None:
    orders, letters, good = pipelines.topic("orders", partitions=1), pipelines.name("letters"), pipelines.name("good")
    pipelines.send(orders, [*ROWS, "no json"], key="k")
    target = f"{{topic: {good}}}" if sink == "topic" else '{table: good, url: "sqlite:///good.db"}'
    checked = f"""
        name: {pipelines.name("checked")}
        guarantee: exactly_once
        source: {{topic: {orders}, schema: "{SCHEMA}"}}
        transform:
          - numbers: SELECT id, CAST(amount AS INT) AS number, divisor, list FROM source WHERE id > 0
          - SELECT id, number div divisor AS share, list[IF(divisor = 9, 9, 0)] AS item FROM numbers
        sink: {target}
        on_error: {{dead_letters: {letters}}}
    """
    events = pipelines.once(checked)
    assert [event["condition"] for event in of_kind(events, "restarting")] == ["PENSTOCK_EXPRESSION_FAILED"]
    assert events[-1]["total"] == {"rows": 7, "batches": 1, "dead_letters": 5, "dropped": 0}
    if sink == "topic":
        assert sorted(found["id"] for found in pipelines.values(good)) == [1, 6]
    found = by_id(pipelines.records(letters))
    assert {number: headers["penstock.reason"] for number, headers in found.items()} == {
        2: "CAST(amount AS INT) fails for amount = 'abc'",
        3: "(number div divisor) fails for amount = '30', divisor = '0'",
        4: "list[(IF((divisor = 9), 9, 0))] fails for list = '[1, 2]', divisor = '9'",
        5: "CAST(amount AS INT) fails for amount = '99999999999'",
    }
    assert {name: found[2][f"penstock.{name}"] for name in ("stage", "topic", "partition", "offset")} == {
        "stage": "transform",
        "topic": orders,
        "partition": "0",
        "offset": "1",
    }
    # The next run finds nothing to complain of, and one with a new bad row finds that.
    pipelines.send(orders, [row(7, "70"), row(8, "no")])
    pipelines.once(checked)
    assert sorted(by_id(pipelines.records(letters))) == [2, 3, 4, 5, 8]


def test_a_failing_expression_stops_the_pipeline_with_position_expression_and_value(pipelines: Pipelines) -> None:
    orders = pipelines.topic("orders", partitions=2)
    pipelines.send(orders, [row(1, "10"), row(2, "20"), row(3, "30"), row(4, "abc")])
    total = f"""
        name: {pipelines.name("total")}
        source: {{topic: {orders}, schema: "{SCHEMA}"}}
        transform: SELECT divisor, sum(CAST(amount AS INT)) AS total FROM source GROUP BY divisor
        sink: {{table: total, url: "sqlite:///total.db", key: [divisor]}}
    """
    with pytest.raises(PipelineFailed) as failed:
        pipelines.once(total)
    assert str(failed.value) == (
        f"{orders} partition 1 offset 1: CAST(amount AS INT) fails for amount = 'abc'; nothing of its micro-batch was"
        " written: use an expression that tolerates it, such as try_cast, or set on_error to drop or {dead_letters:"
        " TOPIC}"
    )
    assert failed.value.entry.condition == "PENSTOCK_EXPRESSION_FAILED"
    # An aggregation may drop the row, too: it is left out before it is counted.
    events = pipelines.once(total + "    on_error: drop\n")
    assert events[-1]["total"]["dropped"] == 1


@pytest.mark.slow
def test_a_failing_filter_in_a_join_is_found_in_the_source_that_it_reads(pipelines: Pipelines) -> None:
    orders, letters = pipelines.topic("orders", partitions=1), pipelines.name("letters")
    (pipelines.directory / "names").mkdir()
    (pipelines.directory / "names" / "a.json").write_text('{"id": 1, "name": "ada"}\n{"id": 2, "name": "bob"}\n')
    pipelines.send(orders, [row(1, "10"), row(2, "zwei"), row(3, "1")])
    pipelines.once(f"""
        name: {pipelines.name("joined")}
        guarantee: exactly_once
        sources:
          orders: {{topic: {orders}, schema: "{SCHEMA}"}}
          names: {{files: names, static: true, schema: "id BIGINT, name STRING"}}
        transform: >
          WITH big AS (SELECT * FROM orders WHERE CAST(amount AS INT) BETWEEN 5 AND 50)
          SELECT big.id, name, amount FROM big JOIN names ON big.id = names.id
        sink: {{topic: {pipelines.name("named")}}}
        on_error: {{dead_letters: {letters}}}
    """)
    assert pipelines.values(pipelines.name("named")) == [{"id": 1, "name": "ada", "amount": "10"}]
    assert {number: headers["penstock.stage"] for number, headers in by_id(pipelines.records(letters)).items()} == {
        2: "transform"
    }


@pytest.mark.slow
def test_a_program_whose_frames_fail_for_a_row_runs_again_over_guarded_sources(pipelines: Pipelines) -> None:
    orders, letters, good = pipelines.topic("orders", partitions=1), pipelines.name("letters"), pipelines.name("good")
    pipelines.send(orders, [row(1, "10"), row(2, "abc"), row(3, "30")])
    declared = parse_pipeline(
        f"""
        name: {pipelines.name("program")}
        guarantee: exactly_once
        source: {{topic: {orders}, schema: "{SCHEMA}"}}
        sink: {{topic: {good}}}
        on_error: {{dead_letters: {letters}}}
        """,
        "program.yaml",
    ).spec
    events: list[Any] = []
    run = PipelineRun(declared, pipelines.settings(once=True, report=events.append))
    source = run.read("source", declared.all_sources["source"])
    result = source.where("id > 0").withColumn("number", source["amount"].cast("int")).select("id", "number")
    run.execute(PipelinePlan(declared, pipelines.directory, {None: result}))
    assert sorted(found["number"] for found in pipelines.values(good)) == [10, 30]
    assert [letter.headers["penstock.reason"] for letter in pipelines.records(letters)] == [
        "CAST(amount AS INT) fails for amount = 'abc'"
    ]
    assert len(of_kind(events, "restarting")) == 1


def test_state_without_bounds_is_a_warning_when_a_run_starts(pipelines: Pipelines) -> None:
    a, b = pipelines.topic("a", partitions=1), pipelines.topic("b", partitions=1)
    pipelines.send(a, [{"id": 1}])
    events = pipelines.once(f"""
        name: {pipelines.name("joined")}
        sources:
          a: {{topic: {a}, schema: "id INT"}}
          b: {{topic: {b}, schema: "id INT"}}
        transform: SELECT a.id FROM a JOIN b ON a.id = b.id
        sink: {{console: true}}
    """)
    [warning] = of_kind(events, "warning")
    assert warning["message"].startswith("transform: without watermarks, the join keeps every row of both streams")
