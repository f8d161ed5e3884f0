"""A pipeline, as its author declares it: the one model behind the YAML files and the Python API.

Owns the top-level keys and what must hold between sources, transform and sink. It must never know where a declaration
came from (`spec_file.py`, `api.py`), how it runs (`run.py`), or which guarantees hold (`guarantee.py`); and it imports
no pyspark, so that a file is checked in a blink and without Java.

Invariant: a PipelineSpec never changes, and its repr shows no password.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, PrivateAttr, Tag, model_validator

from penstock.core.addresses import DEFAULT_DATA_DIR
from penstock.core.guarantee import Guarantee
from penstock.pipeline.declaration.choice import choose_by_key, nearest
from penstock.pipeline.declaration.locations import absolute_path
from penstock.pipeline.declaration.redaction import secrets_in_options
from penstock.pipeline.declaration.spec_values import (
    Duration,
    Expression,
    PipelineName,
    Scalar,
    Settings,
    SinkName,
    SqlName,
    Text,
    TopicName,
    refused,
)
from penstock.pipeline.declaration.transform_spec import PythonStep, Transform
from penstock.pipeline.declaration.verdicts import KeyPath
from penstock.pipeline.sinks.kinds import SINKS, DeclaredSink
from penstock.pipeline.sinks.sink import Sink
from penstock.pipeline.sources.kinds import SOURCES, DeclaredSource
from penstock.pipeline.sources.source import Source

SOLE_SOURCE: Final = "source"
DEAD_LETTERS: Final = "dead_letters"
"""The progress of a pipeline's dead letters, beside that of its sinks."""


class DeadLetters(Settings):
    """Bad rows become records of a topic."""

    dead_letters: TopicName = Field(
        description="The topic. A record there has the key and value of the bad one, and the reason, the stage and the"
        " position in the source as headers.",
        examples=["revenue.dlq"],
    )


class EveryInterval(Settings):
    """A micro-batch at most this often."""

    interval: Duration = Field(description="The time between the beginnings of micro-batches.", examples=["1 second"])


def _word_or(tag: str, model: type[Settings], key: str, words: str) -> Discriminator:
    by_key = choose_by_key({key: (tag, model)})

    def choose(value: Any) -> str | None:
        return "a word" if isinstance(value, str) else by_key(value)

    return Discriminator(
        choose,
        custom_error_type="choice",
        custom_error_message=f"expected {words} or {{{key}: ...}}",
    )


OnError = Annotated[
    Annotated[Literal["stop", "drop"], Tag("a word")] | Annotated[DeadLetters, Tag("on_error by dead_letters")],
    _word_or("on_error by dead_letters", DeadLetters, "dead_letters", "stop, drop"),
]
Trigger = Annotated[
    Annotated[Literal["available_now", "once"], Tag("a word")] | Annotated[EveryInterval, Tag("trigger by interval")],
    _word_or("trigger by interval", EveryInterval, "interval", "available_now"),
]


class PipelineHead(Settings):
    """What is said of a pipeline as a whole. A program says this first, and the rest call by call."""

    name: PipelineName = Field(
        description="Names the pipeline's consumer group, its transactions and its checkpoint. Two runs with one name"
        " are the same pipeline: the later one takes over.",
        examples=["revenue"],
    )
    guarantee: Guarantee = Field(
        default="at_least_once", description="What a crash may do to the rows in flight; see docs/pipelines.md."
    )
    on_error: OnError = Field(
        default="stop",
        description="What happens to a row that does not parse or breaks `expect`: the pipeline stops before anything"
        " of its micro-batch is written, or the row is dropped and counted, or it goes to a topic.",
        examples=[{"dead_letters": "revenue.dlq"}],
    )
    trigger: Trigger | None = Field(
        default=None,
        description="How often micro-batches run. Default: as soon as rows arrive. available_now (or once) processes"
        " all available records and ends.",
        examples=[{"interval": "1 second"}],
    )
    output_mode: Literal["append", "update", "complete"] | None = Field(
        default=None,
        description="Which rows of an aggregation are written. Without it: the changed ones (update) for an upsert and"
        " the console, final rows (append) otherwise.",
    )
    bootstrap_servers: Text | None = Field(
        default=None,
        description="The brokers. Without it: --bootstrap-server of the command, else the embedded broker.",
        examples=["localhost:9092"],
    )
    checkpoint: Text | None = Field(
        default=None,
        description="The directory of the pipeline's progress and state. Without it: .penstock/checkpoints/NAME.",
    )
    spark: dict[str, Scalar] = Field(
        default_factory=dict,
        description="Settings of Spark for this pipeline.",
        examples=[{"spark.sql.shuffle.partitions": 4}],
    )

    @model_validator(mode="after")
    def _check_spark(self) -> Self:
        for name in self.spark:
            if not name.startswith("spark."):
                raise refused(f"spark.{name}", f"settings of Spark begin with 'spark.' (did you mean 'spark.{name}'?)")
        return self

    @property
    def dead_letter_topic(self) -> str | None:
        return self.on_error.dead_letters if isinstance(self.on_error, DeadLetters) else None

    def checkpoint_location(self, directory: Path, given: str | None) -> str:
        """The checkpoint's absolute path. `given` is the command's, which wins over the pipeline's own."""
        chosen = given or self.checkpoint or str(DEFAULT_DATA_DIR / "checkpoints" / self.name)
        return absolute_path(chosen, directory)


def _names_first(role: str, announcing: frozenset[str]) -> Callable[[Any], Any]:
    """For `sources` and `sinks`: a list, or one that stands there without a name, is told from a wrong key in it."""

    def check(value: Any) -> Any:
        if isinstance(value, list | tuple):
            raise ValueError(f"expected a name for each {role}, as in {role}s: {{NAME: {{...}}}}, got a list")
        if isinstance(value, Mapping) and any(
            key in announcing and not isinstance(found, Mapping) for key, found in value.items()
        ):
            raise ValueError(
                f"has a name for each {role}, as in {role}s: {{NAME: {{...}}}};"
                f" a single one is written as {role}: {{...}}"
            )
        return value

    return check


_NamedSources = Annotated[
    dict[SqlName, DeclaredSource],
    BeforeValidator(_names_first("source", frozenset(key for kind in SOURCES for key in kind.discriminators))),
]
_NamedSinks = Annotated[
    dict[SinkName, DeclaredSink],
    BeforeValidator(_names_first("sink", frozenset(kind.discriminator for kind in SINKS))),
]


class PipelineSpec(PipelineHead):
    """From sources through a transform to one sink or several, with a delivery guarantee."""

    source: DeclaredSource | None = Field(default=None, description="The one source; SQL calls it `source`.")
    sources: _NamedSources | None = Field(
        default=None, min_length=1, description="Several sources, by the names that SQL calls them."
    )
    transform: Transform = Field(
        default=(),
        description="A SQL query, or a list of steps, of which each may use the sources and the steps before it. The"
        " last one's rows go to the sink. Without it, rows pass as they are.",
    )
    expect: dict[Text, Expression] = Field(
        default_factory=dict,
        description="Rule names and the SQL conditions that every row of `source` must meet. With `sources`, each has"
        " its own.",
        examples=[{"positive amount": "amount > 0"}],
    )
    declared_sink: DeclaredSink | None = Field(default=None, alias="sink", description="Where the rows go.")
    sinks: _NamedSinks | None = Field(
        default=None,
        min_length=1,
        description="Several sinks, by their names. Each has its own progress: transactions, ledger entry and consumer"
        " group are named PIPELINE/SINK.",
        examples=[{"archive": {"files": "archive/", "from": "source"}, "alerts": {"topic": "alerts"}}],
    )
    # Of a branch: which of several sinks it has.
    _sink_name: str | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.source is None) == (self.sources is None):
            raise refused("sources" if self.source is not None else "source", "give either source or sources")
        if self.declared_sink is None and self.sinks is None:
            raise refused("sink", "is missing")
        if self.declared_sink is not None and self.sinks is not None:
            raise refused("sinks", "give either sink or sinks")
        if self.expect:
            self._check_expect()
        if all(source.is_static for source in self.all_sources.values()):
            raise refused(
                self._source_key(), "nothing here goes on arriving: a pipeline needs a topic or files to read"
            )
        self._check_sinks(self._check_steps())
        self._check_loops()
        return self

    def _check_expect(self) -> None:
        if self.sources is not None:
            raise refused("expect", "with several sources, each has its own: sources.NAME.expect")
        if self.source is not None and not self.source.checks_rows:
            raise refused("expect", "a table is not checked row by row; remove it")
        if self.source is not None and self.source.expectations:
            raise refused("expect", "is given here and in source; once is enough")

    def _check_steps(self) -> list[str]:
        """Returns the names of all rows that there are."""
        known = list(self.all_sources)
        for index, step in enumerate(self.transform):
            if isinstance(step, PythonStep):
                for name in step.inputs or ():
                    if name not in known:
                        raise refused(f"transform.{index}.inputs", _no_such_rows(name, known))
            name = self.step_name(index)
            if name in known:
                raise refused(
                    f"transform.{index}", f"the name {name!r} is taken; steps and sources need different ones"
                )
            known.append(name)
        return known

    def _check_sinks(self, known: list[str]) -> None:
        if self.declared_sink is not None and self.declared_sink.rows_from is not None:
            raise refused("sink.from", "one sink gets the rows of the last step; remove it, or name several sinks")
        if self.declared_sink is not None and self.declared_sink.own_output_mode is not None:
            raise refused("sink.output_mode", "stands at the top level; only one of several sinks has its own")
        for name, sink in (self.sinks or {}).items():
            if name == DEAD_LETTERS:
                raise refused(f"sinks.{name}", "is the name of the dead letters' own progress; choose another")
            if sink.rows_from is not None and sink.rows_from not in known:
                raise refused(f"sinks.{name}.from", _no_such_rows(sink.rows_from, known))

    def _check_loops(self) -> None:
        written: dict[str, str] = {}
        for branch in self.branches:
            own = branch.sink.topics()
            written |= {branch.in_sink(key): topic for key, topic in own.items()}
        if isinstance(self.on_error, DeadLetters):
            if self.on_error.dead_letters in written.values():
                raise refused(
                    "on_error.dead_letters",
                    f"is the topic of {'the' if self.sinks is None else 'a'} sink; bad rows need one of their own",
                )
            written["on_error.dead_letters"] = self.on_error.dead_letters
        for key, topic in written.items():
            if any(source.reads(topic) for source in self.all_sources.values()):
                raise refused(key, f"the pipeline reads {topic!r} and would feed itself for ever; name another topic")

    def _source_key(self) -> str:
        return "source" if self.sources is None else "sources"

    def source_path(self, name: str) -> KeyPath:
        """Where the source of that name stands."""
        return (SOLE_SOURCE,) if self.sources is None and name == SOLE_SOURCE else ("sources", name)

    @property
    def all_sources(self) -> dict[str, Source]:
        """The sources by their names in SQL, each with its own expectations."""
        if self.sources is not None:
            return dict(self.sources)
        assert self.source is not None  # _check has seen to it
        return {SOLE_SOURCE: self.source.with_expectations(self.expect) if self.expect else self.source}

    @property
    def branches(self) -> list[Self]:
        """The pipeline once for each sink, as if that were its only one. One with `sink` is its own only branch."""
        if self.sinks is None:
            return [self]
        # Dead letters have a branch of their own: in the others, bad rows are only left out.
        on_error = "drop" if isinstance(self.on_error, DeadLetters) else self.on_error
        found = []
        for name, sink in self.sinks.items():
            mode = sink.own_output_mode or self.output_mode
            changes = {"declared_sink": sink, "sinks": None, "on_error": on_error, "output_mode": mode}
            branch = self.model_copy(update=changes)
            branch._sink_name = name
            found.append(branch)
        return found

    @property
    def dead_letter_branch(self) -> Self:
        """For the query that writes the dead letters of several sinks. It has no sink."""
        branch = self.model_copy(update={"declared_sink": None, "sinks": None})
        branch._sink_name = DEAD_LETTERS
        return branch

    @property
    def sink(self) -> Sink:
        """The sink of a branch."""
        assert self.declared_sink is not None, "a pipeline with several sinks has one in each of its branches"
        return self.declared_sink

    @property
    def sink_name(self) -> str | None:
        """The name of a branch's sink; None with `sink`."""
        return self._sink_name

    @property
    def sink_path(self) -> KeyPath:
        """Where a branch's sink stands."""
        if self._sink_name == DEAD_LETTERS:
            return ("on_error", DEAD_LETTERS)
        return ("sink",) if self._sink_name is None else ("sinks", self._sink_name)

    @property
    def output_mode_path(self) -> KeyPath:
        """Where a branch's output mode stands."""
        own = self.declared_sink is not None and self.declared_sink.own_output_mode is not None
        return (*self.sink_path, "output_mode") if own else ("output_mode",)

    def in_sink(self, message: str) -> str:
        """A message that begins with `sink` or a key below it, with the key of this branch's sink instead."""
        if self._sink_name is None or not re.match(r"sink\b", message):
            return message
        rest = message.removeprefix("sink")
        if self._sink_name == DEAD_LETTERS:
            rest = rest.removeprefix(".topic")
        return ".".join(map(str, self.sink_path)) + rest

    @property
    def progress_name(self) -> str:
        """Names a branch's transactions, its entry in a ledger, its consumer group and its query."""
        return self.name if self._sink_name is None else f"{self.name}/{self._sink_name}"

    @property
    def rows_name(self) -> str:
        """The name of the rows that go to a branch's sink."""
        if self.sink.rows_from is not None:
            return self.sink.rows_from
        return self.step_name(len(self.transform) - 1) if self.transform else next(iter(self.all_sources))

    @property
    def calls_functions(self) -> bool:
        """Whether the author's own Python code runs in it, beside SQL."""
        return any(branch.sink.calls_functions for branch in self.branches) or any(
            isinstance(step, PythonStep) for step in self.transform
        )

    @property
    def uses_databases(self) -> bool:
        return any(branch.sink.uses_databases for branch in self.branches)

    def secrets(self) -> frozenset[str]:
        """Values that no message may show."""
        of_sources = (source.secrets() for source in self.all_sources.values())
        of_sinks = (branch.sink.secrets() for branch in self.branches)
        return frozenset(secrets_in_options(self.spark)).union(*of_sources, *of_sinks)

    def located(self, directory: Path) -> Self:
        """The same pipeline with relative locations made absolute."""
        changes: dict[str, object] = {}
        if self.declared_sink is not None:
            changes["declared_sink"] = self.declared_sink.located(directory)
        if self.sinks is not None:
            changes["sinks"] = {name: sink.located(directory) for name, sink in self.sinks.items()}
        if self.source is not None:
            changes["source"] = self.source.located(directory)
        if self.sources is not None:
            changes["sources"] = {name: source.located(directory) for name, source in self.sources.items()}
        return self.model_copy(update=changes)

    def step_name(self, index: int) -> str:
        return self.transform[index].name or f"step_{index + 1}"


def _no_such_rows(name: str, known: list[str]) -> str:
    resembled = nearest(name, known)
    hint = f" (did you mean {resembled!r}?)" if resembled else ""
    return f"no source or earlier step is called {name!r}; there are {', '.join(known)}{hint}"
