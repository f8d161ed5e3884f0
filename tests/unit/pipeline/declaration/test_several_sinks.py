"""`sinks`: several sinks of one pipeline, as they are declared."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.pipeline.declaration.guarantee import refusals
from penstock.pipeline.declaration.spec import PipelineSpec
from penstock.pipeline.declaration.spec_errors import InvalidPipeline, key_text
from penstock.pipeline.declaration.spec_file import parse_pipeline
from penstock.pipeline.declaration.spec_schema import json_schema

TWO = """\
name: orders
guarantee: exactly_once
source: {topic: a, schema: "id BIGINT"}
transform:
  - cleaned: SELECT id FROM source
  - counted: SELECT id, 1 AS one FROM cleaned
sinks:
  archive: {files: out/, from: cleaned}
  counts: {topic: counts, bootstrap_servers: "other:9092"}
"""


def parsed(text: str) -> PipelineSpec:
    return parse_pipeline(text, "p.yaml", {}).spec


def mistakes(text: str) -> list[str]:
    with pytest.raises(InvalidPipeline) as raised:
        parse_pipeline(text, "p.yaml", {})
    return [str(problem) for problem in raised.value.problems]


def test_each_sink_is_a_branch_with_names_of_its_own() -> None:
    spec = parsed(TWO)
    assert [(branch.sink_name, branch.progress_name, branch.rows_name) for branch in spec.branches] == [
        ("archive", "orders/archive", "cleaned"),
        ("counts", "orders/counts", "counted"),
    ]
    assert [key_text(branch.sink_path) for branch in spec.branches] == ["sinks.archive", "sinks.counts"]
    assert spec.name == "orders"


def test_one_sink_keeps_the_names_of_the_pipeline() -> None:
    spec = parsed("name: x\nsource: {topic: a}\nsink: {topic: b}\n")
    [branch] = spec.branches
    assert (branch is spec, branch.sink_name, branch.progress_name, branch.rows_name) == (True, None, "x", "source")
    assert branch.in_sink("sink.topic: is gone") == "sink.topic: is gone"


def test_a_message_names_the_key_of_its_sink() -> None:
    archive, _ = parsed(TWO).branches
    assert archive.in_sink("sink.topic: is gone") == "sinks.archive.topic: is gone"
    assert archive.in_sink("sink: is gone") == "sinks.archive: is gone"
    assert archive.in_sink("source.topic: is gone") == "source.topic: is gone"


def test_dead_letters_are_a_branch_of_their_own_and_of_no_sink() -> None:
    spec = parsed(TWO + "on_error: {dead_letters: dlq}\n")
    assert {branch.dead_letter_topic for branch in spec.branches} == {None}
    letters = spec.dead_letter_branch
    assert (letters.progress_name, letters.dead_letter_topic) == ("orders/dead_letters", "dlq")
    assert letters.in_sink("sink.topic: is gone") == "on_error.dead_letters: is gone"


def test_a_pipeline_travels_to_the_engine_as_it_was_declared() -> None:
    spec = parsed(TWO)
    packed: dict[str, Any] = spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert packed["sinks"]["archive"] == {"files": "out/", "from": "cleaned"}
    assert PipelineSpec.model_validate(packed) == spec


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("from: cleaned", "from: claened", "p.yaml:8: sinks.archive.from: no source or earlier step is called"),
        ("  archive:", "  dead_letters:", "p.yaml:8: sinks.dead_letters: is the name of the dead letters' own"),
        ("  archive:", "  a/b:", "p.yaml:8: sinks.a/b: 'a/b' cannot name a sink"),
        ("topic: counts", "topic: a", "p.yaml:9: sinks.counts.topic: the pipeline reads 'a' and would feed itself"),
        ("topic: counts", "topik: counts", "p.yaml:9: sinks.counts.topik: unknown key (did you mean 'topic'?)"),
        ("name: orders", "name: orders\nsink: {topic: b}", "p.yaml:8: sinks: give either sink or sinks"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_at_its_key(old: str, new: str, expected: str) -> None:
    [found] = mistakes(TWO.replace(old, new))
    assert found.startswith(expected), found


def test_guarantees_are_checked_for_each_sink() -> None:
    text = TWO.replace("archive: {files: out/, from: cleaned}", "screen: {console: true}").replace(
        'bootstrap_servers: "other:9092"', "options: {kafka.acks: 1}"
    )
    assert [found.partition(", ")[0].partition("; ")[0] for found in mistakes(text)] == [
        "p.yaml:8: sinks.screen: exactly_once cannot be kept by this sink: what was shown on a terminal cannot be taken"
        " back",
        "p.yaml:9: sinks.counts.options.kafka.acks: a record may be lost unless all in-sync replicas have it",
    ]


def test_an_output_mode_has_to_fit_every_sink() -> None:
    [refusal] = refusals(parsed(TWO).model_copy(update={"output_mode": "update"}))
    assert key_text(refusal.path) == "output_mode"
    assert refusal.reason.startswith("does not fit sinks.archive: files are never changed")


def test_a_sink_may_have_an_output_mode_of_its_own() -> None:
    spec = parsed(TWO.replace("topic: counts,", "topic: counts, output_mode: update,"))
    assert [branch.output_mode for branch in spec.branches] == [None, "update"]
    found = mistakes(TWO.replace("from: cleaned", "output_mode: update"))
    assert found == [
        "p.yaml:8: sinks.archive.output_mode: files are never changed once they are written; only append fits them"
    ]
    found = mistakes("name: x\nsource: {topic: a}\nsink: {topic: b, output_mode: update}\n")
    assert found == ["p.yaml:3: sink.output_mode: stands at the top level; only one of several sinks has its own"]


def test_several_sources_need_no_transform_if_every_sink_says_whose_rows_it_gets() -> None:
    text = "name: x\nsources:\n  a: {topic: a}\n  b: {topic: b}\nsinks:\n  c: {topic: c, from: a}\n  d: {topic: d%s}\n"
    assert [branch.rows_name for branch in parsed(text % ", from: b").branches] == ["a", "b"]
    assert mistakes(text % "") == ["p.yaml:2: sources: several sources need a transform that makes one result of them"]


def test_one_sink_takes_the_rows_of_the_last_step() -> None:
    found = mistakes("name: x\nsource: {topic: a}\nsink: {topic: b, from: source}\n")
    assert found == ["p.yaml:3: sink.from: one sink gets the rows of the last step; remove it, or name several sinks"]


def test_editors_complete_sinks() -> None:
    schema = json_schema()
    assert schema["allOf"][1] == {"oneOf": [{"required": ["sink"]}, {"required": ["sinks"]}]}
    assert "from" in schema["$defs"]["TopicSink"]["properties"]
