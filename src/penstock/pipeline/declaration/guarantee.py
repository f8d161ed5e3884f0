"""Which guarantee holds for which sink, how it is kept, and why another cannot be.

Owns the table that users are shown and the refusals of `penstock validate`: what cannot be kept is refused before
anything runs. It must never know how a sink keeps its word; the sinks refer to this table, not the other way round.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from penstock.core.guarantee import Guarantee
from penstock.pipeline.declaration.sink_spec import AnySink, ConsoleSink, FileSink, FunctionSink, TableSink, TopicSink
from penstock.pipeline.declaration.source_spec import TopicSource
from penstock.pipeline.declaration.spec import SOLE_SOURCE, PipelineSpec
from penstock.pipeline.declaration.spec_errors import KeyPath


@dataclass(frozen=True, slots=True)
class Kept:
    """The guarantee holds, and this is how."""

    how: str


@dataclass(frozen=True, slots=True)
class Refused:
    """It does not, and this is why and what to do."""

    why: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """What is wrong with a pipeline that is well-formed, and where."""

    path: KeyPath
    reason: str


_SKIPPED: Final = Kept("the batch id is recorded before the batch is written; a replayed batch is skipped")
_TABLE: Final[dict[type[AnySink], dict[Guarantee, Kept | Refused]]] = {
    TopicSink: {
        "at_most_once": _SKIPPED,
        "at_least_once": Kept("records are acknowledged before progress is recorded"),
        "exactly_once": Kept("one Kafka transaction holds the records, the dead letters and the batch id"),
    },
    TableSink: {
        "at_most_once": _SKIPPED,
        "at_least_once": Kept("rows are committed before progress is recorded"),
        "exactly_once": Kept("one database transaction holds the rows and the batch id, in the table penstock_ledger"),
    },
    FileSink: {
        "at_most_once": _SKIPPED,
        "at_least_once": Kept("files are complete before progress is recorded"),
        "exactly_once": Kept("files count when the directory's _spark_metadata lists them; read it with Spark"),
    },
    ConsoleSink: {
        "at_most_once": _SKIPPED,
        "at_least_once": Kept("rows are shown before progress is recorded"),
        "exactly_once": Refused("what was shown on a terminal cannot be taken back; use at_least_once or another sink"),
    },
    FunctionSink: {
        "at_most_once": _SKIPPED,
        "at_least_once": Kept("the function returns before progress is recorded"),
        "exactly_once": Kept("the function is called again with the same batch id, and declares that this is harmless"),
    },
}
_NOT_DECLARED_IDEMPOTENT: Final = Refused(
    "a function may be called twice with one batch: let it take the batch id, make the second call harmless, and"
    " declare sink.idempotent: true; or use at_least_once"
)
_FALSE: Final = ("false", "0", "no")


def verdict(sink: AnySink, guarantee: Guarantee) -> Kept | Refused:
    if isinstance(sink, FunctionSink) and guarantee == "exactly_once" and not sink.idempotent:
        return _NOT_DECLARED_IDEMPOTENT
    return _TABLE[type(sink)][guarantee]


def refusals(spec: PipelineSpec) -> list[Refusal]:
    """What the pipeline promises and could not keep; empty for a pipeline that may run."""
    return [*_by_the_sink(spec), *_by_source_options(spec), *_by_sink_options(spec), *_by_output_mode(spec)]


def _by_the_sink(spec: PipelineSpec) -> Iterator[Refusal]:
    found = verdict(spec.sink, spec.guarantee)
    if isinstance(found, Refused):
        yield Refusal(("guarantee",), f"{spec.guarantee} cannot be kept by this sink: {found.why}")


def _by_source_options(spec: PipelineSpec) -> Iterator[Refusal]:
    for name, source in spec.all_sources.items():
        if not isinstance(source, TopicSource):
            continue
        at: KeyPath = ("source",) if spec.sources is None and name == SOLE_SOURCE else ("sources", name)
        for option, value in source.options.items():
            setting = str(value).lower()
            if option.lower() == "failondataloss" and setting in _FALSE and spec.guarantee != "at_most_once":
                yield Refusal(
                    (*at, "options", option),
                    f"skips records that are gone, and {spec.guarantee} may not; remove it, or use at_most_once",
                )
            if (option.lower(), setting, spec.guarantee) == (
                "kafka.isolation.level",
                "read_uncommitted",
                "exactly_once",
            ):
                yield Refusal(
                    (*at, "options", option),
                    "would read what a transaction takes back; exactly_once needs read_committed",
                )


def _by_sink_options(spec: PipelineSpec) -> Iterator[Refusal]:
    if not isinstance(spec.sink, TopicSink) or spec.guarantee == "at_most_once":
        return
    for option, value in spec.sink.options.items():
        setting = str(value).lower()
        at: KeyPath = ("sink", "options", option)
        if option.lower() == "kafka.acks" and setting not in ("all", "-1"):
            yield Refusal(at, f"a record may be lost unless all in-sync replicas have it; {spec.guarantee} needs all")
        if option.lower() == "kafka.enable.idempotence" and setting in _FALSE and spec.guarantee == "exactly_once":
            yield Refusal(at, "a retry may write twice; exactly_once needs it on")


def _by_output_mode(spec: PipelineSpec) -> Iterator[Refusal]:
    if spec.output_mode in (None, "append"):
        return
    if isinstance(spec.sink, FileSink):
        yield Refusal(("output_mode",), "files are never changed once they are written; only append fits them")
    elif spec.output_mode == "complete" and isinstance(spec.sink, TableSink) and spec.sink.mode == "append":
        yield Refusal(("output_mode",), "would append the whole result again with every batch; use sink.mode: upsert")
