"""Which guarantee holds for which sink."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from penstock.core.guarantee import Guarantee
from penstock.pipeline.declaration.guarantee import refusals
from penstock.pipeline.declaration.spec import PipelineSpec
from penstock.pipeline.declaration.verdicts import Kept, Refused
from penstock.pipeline.sinks.kinds import SINKS as KINDS

SINKS: dict[str, dict[str, Any]] = {
    "topic": {"topic": "b"},
    "append": {"table": "t", "url": "sqlite:///t.db"},
    "upsert": {"table": "t", "url": "sqlite:///t.db", "key": "id"},
    "files": {"files": "out/"},
    "console": {"console": True},
    "function": {"python": "m:f"},
    "idempotent function": {"python": "m:f", "idempotent": True},
}
REFUSED = {("console", "exactly_once"), ("function", "exactly_once")}


def spec(**keys: Any) -> PipelineSpec:
    return PipelineSpec.model_validate({"name": "x", "source": {"topic": "a"}, "sink": {"topic": "b"}, **keys})


def told(**keys: Any) -> list[str]:
    return [".".join(map(str, refusal.path)) for refusal in refusals(spec(**keys))]


@pytest.mark.parametrize("guarantee", get_args(Guarantee))
@pytest.mark.parametrize("name", SINKS)
def test_every_sink_keeps_or_refuses_every_guarantee(name: str, guarantee: Guarantee) -> None:
    found = spec(sink=SINKS[name]).sink.verdict(guarantee)
    refused = (name, guarantee) in REFUSED
    assert isinstance(found, Refused if refused else Kept)
    assert told(sink=SINKS[name], guarantee=guarantee) == (["guarantee"] if refused else [])


def test_the_table_knows_every_sink() -> None:
    assert {type(spec(sink=sink).sink) for sink in SINKS.values()} == set(KINDS)


@pytest.mark.parametrize(
    ("guarantee", "option", "value", "refused"),
    [
        ("exactly_once", "failOnDataLoss", False, True),
        ("at_least_once", "failondataloss", "false", True),
        ("at_most_once", "failOnDataLoss", False, False),
        ("exactly_once", "failOnDataLoss", True, False),
        ("exactly_once", "kafka.isolation.level", "read_uncommitted", True),
        ("at_least_once", "kafka.isolation.level", "read_uncommitted", False),
    ],
)
def test_an_option_of_a_source_may_not_break_the_promise(
    guarantee: str, option: str, value: Any, refused: bool
) -> None:
    found = told(guarantee=guarantee, source={"topic": "a", "options": {option: value}})
    assert found == ([f"source.options.{option}"] if refused else [])


@pytest.mark.parametrize(
    ("guarantee", "option", "value", "refused"),
    [
        ("exactly_once", "kafka.acks", 1, True),
        ("at_least_once", "kafka.acks", "0", True),
        ("at_least_once", "kafka.acks", "all", False),
        ("at_least_once", "kafka.acks", -1, False),
        ("at_most_once", "kafka.acks", 0, False),
        ("exactly_once", "kafka.enable.idempotence", False, True),
        ("at_least_once", "kafka.enable.idempotence", False, False),
    ],
)
def test_an_option_of_a_sink_may_not_break_the_promise(guarantee: str, option: str, value: Any, refused: bool) -> None:
    found = told(guarantee=guarantee, sink={"topic": "b", "options": {option: value}})
    assert found == ([f"sink.options.{option}"] if refused else [])


@pytest.mark.parametrize(
    ("sink", "mode", "refused"),
    [
        ("files", "update", True),
        ("files", "complete", True),
        ("files", "append", False),
        ("append", "complete", True),
        ("append", "update", False),
        ("upsert", "complete", False),
        ("topic", "complete", False),
    ],
)
def test_an_output_mode_must_fit_the_sink(sink: str, mode: str, refused: bool) -> None:
    assert told(sink=SINKS[sink], output_mode=mode) == (["output_mode"] if refused else [])


def test_the_options_of_a_named_source_are_told_by_its_name() -> None:
    sources = {"a": {"topic": "a", "options": {"failOnDataLoss": False}}, "c": {"topic": "c"}}
    assert told(source=None, sources=sources, transform="SELECT 1") == ["sources.a.options.failOnDataLoss"]
