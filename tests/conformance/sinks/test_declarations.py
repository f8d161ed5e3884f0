"""Every kind of sink before anything runs: which guarantees it keeps, what it refuses, secrets, locations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.core.guarantee import Guarantee
from penstock.pipeline.declaration.redaction import redacted
from penstock.pipeline.declaration.spec import PipelineSpec
from penstock.pipeline.declaration.spec_errors import InvalidPipeline
from penstock.pipeline.declaration.spec_file import parse_pipeline
from penstock.pipeline.declaration.verdicts import Refused
from penstock.pipeline.sinks.kinds import SINKS
from penstock.pipeline.sinks.sink import Sink
from tests.conformance.sinks.adapters import ADAPTERS, GUARANTEES, SECRET, SinkAdapter

MINIMAL: dict[str, dict[str, Any]] = {
    "topic": {"topic": "out"},
    "table": {"table": "t", "url": "sqlite:///t.db"},
    "files": {"files": "out"},
    "console": {"console": True},
    "python": {"python": "module:function"},
}


def declared(sink: Any, **keys: Any) -> PipelineSpec:
    return PipelineSpec.model_validate({"name": "p", "source": {"topic": "in"}, "sink": sink, **keys})


@pytest.mark.parametrize("kind", SINKS, ids=lambda kind: kind.discriminator)
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_guarantee_is_kept_or_refused_with_the_reason(kind: type[Sink], guarantee: Guarantee) -> None:
    sink = MINIMAL[kind.discriminator]
    verdict = declared(sink).sink.verdict(guarantee)
    text = json.dumps({"name": "p", "guarantee": guarantee, "source": {"topic": "in"}, "sink": sink})
    if isinstance(verdict, Refused):
        with pytest.raises(InvalidPipeline, match=f"guarantee: {guarantee} cannot be kept by this sink") as refusal:
            parse_pipeline(text, "p.yaml")
        assert verdict.why in str(refusal.value)
    else:
        assert verdict.how
        assert parse_pipeline(text, "p.yaml").spec.guarantee == guarantee


@pytest.mark.parametrize("kind", SINKS, ids=lambda kind: kind.discriminator)
def test_a_sink_is_recognised_by_its_key_and_told_by_its_spelling(kind: type[Sink]) -> None:
    assert type(declared(MINIMAL[kind.discriminator]).sink) is kind
    with pytest.raises(InvalidPipeline) as refusal:
        parse_pipeline("name: p\nsource: {topic: in}\nsink: {nowhere: 1}\n", "p.yaml")
    assert kind.spelling in str(refusal.value)


@pytest.mark.parametrize("kind", SINKS, ids=lambda kind: kind.discriminator)
def test_nothing_takes_an_output_mode_without_saying_so(kind: type[Sink]) -> None:
    sink = declared(MINIMAL[kind.discriminator]).sink
    assert sink.refused_output_mode("append") is None, "every sink can append"


@pytest.mark.parametrize("adapter", [each for each in ADAPTERS if each.with_secret], ids=lambda each: each.__name__)
def test_secrets_are_redacted(adapter: type[SinkAdapter]) -> None:
    spec = declared(adapter.with_secret)
    assert SECRET in spec.secrets()
    assert SECRET not in repr(spec)
    assert redacted(f"the server refused {SECRET}", spec.secrets()) == "the server refused ***"


@pytest.mark.parametrize("adapter", [each for each in ADAPTERS if each.relative], ids=lambda each: each.__name__)
def test_relative_locations_mean_the_directory_of_the_command(adapter: type[SinkAdapter]) -> None:
    assert adapter.relative is not None
    sink, key = adapter.relative
    located = declared(sink).located(Path("/somewhere")).sink
    assert "/somewhere/" in getattr(located, key)
    assert located.located(Path("/elsewhere")) == located
