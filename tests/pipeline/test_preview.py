"""`penstock run --preview`: the first rows of a result, and nothing that is left behind."""

from __future__ import annotations

import io
import json
import textwrap

import pytest

from penstock.pipeline.api import PipelinePlan
from penstock.pipeline.declaration.spec_file import parse_pipeline
from penstock.pipeline.failure import PipelineFailed
from penstock.pipeline.preview import Preview, PreviewRun, print_preview
from tests.pipeline.pipeline_runs import Pipelines


def preview(pipelines: Pipelines, yaml: str, rows: int = 20) -> Preview:
    found: list[Preview] = []
    spec = parse_pipeline(textwrap.dedent(yaml), "pipeline.yaml").spec
    settings = pipelines.settings(once=False, report=lambda _: None)
    PreviewRun(spec, settings, rows, found.append).execute(PipelinePlan(spec, pipelines.directory))
    [only] = found
    return only


def groups_and_topics(pipelines: Pipelines) -> tuple[set[str], set[str]]:
    groups = pipelines.admin.list_consumer_groups().result().valid
    return {group.group_id for group in groups}, set(pipelines.admin.list_topics(timeout=60).topics)


def test_rows_and_bad_rows_are_shown_and_nothing_is_written(pipelines: Pipelines) -> None:
    orders = pipelines.topic("orders")
    sent = [{"id": number, "amount": str(number)} for number in range(30)]
    pipelines.send(orders, [*sent, "no json", {"id": 31, "amount": "much"}])
    before = groups_and_topics(pipelines)
    yaml = f"""
        name: {pipelines.name("doubled")}
        guarantee: exactly_once
        source: {{topic: {orders}, starting_offsets: latest}}
        transform: SELECT id, CAST(amount AS INT) * 2 AS twice FROM source WHERE id >= 10
        sink: {{topic: {pipelines.name("doubled")}}}
        on_error: {{dead_letters: {pipelines.name("letters")}}}
    """
    found = preview(pipelines, yaml, rows=5)
    assert found.columns == ["id", "twice"]
    assert len(found.rows) == 5
    assert all(row["twice"] == 2 * row["id"] for row in found.rows)
    assert {(row["stage"], row["value"]) for row in found.bad} == {
        ("parse", "no json"),
        ("transform", '{"id": 31, "amount": "much"}'),
    }
    assert groups_and_topics(pipelines) == before
    assert list(pipelines.directory.iterdir()) == []  # the columns were inferred, and not kept either

    lines = io.StringIO()
    print_preview(found, lines, as_json=True)
    printed = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert [list(row) for row in printed] == [["row"]] * 5 + [["bad_row"]] * 2
    table = io.StringIO()
    print_preview(found, table, as_json=False)
    assert "bad rows (2)" in table.getvalue()


@pytest.mark.slow
def test_an_aggregation_of_files_joined_with_files(pipelines: Pipelines) -> None:
    for name, rows in {"orders": '{"id": 1, "n": 2}\n{"id": 1, "n": 3}', "names": '{"id": 1, "name": "ada"}'}.items():
        (pipelines.directory / name).mkdir()
        (pipelines.directory / name / "a.json").write_text(rows)
    found = preview(
        pipelines,
        """
        name: totals
        sources:
          orders: {files: orders, schema: "id INT, n INT", dedupe: [id, n]}
          names: {files: names, static: true}
        transform: SELECT name, sum(n) AS total FROM orders JOIN names USING (id) GROUP BY name
        sink: {table: totals, url: "sqlite:///totals.db", key: [name]}
        """,
    )
    assert (found.columns, found.rows, found.bad) == (["name", "total"], [{"name": "ada", "total": 5}], [])
    assert not (pipelines.directory / "totals.db").exists()


def test_mistakes_are_those_of_a_run(pipelines: Pipelines) -> None:
    with pytest.raises(PipelineFailed, match=r"transform\[0\].sql: no column is called 'amuont'"):
        preview(
            pipelines,
            f"""
            name: wrong
            source: {{topic: {pipelines.topic("orders")}, schema: "amount INT"}}
            transform: SELECT amuont FROM source
            sink: {{console: true}}
            """,
        )
