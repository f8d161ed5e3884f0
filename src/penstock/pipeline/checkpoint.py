"""What is kept beside Spark's own files in a pipeline's checkpoint: whose it is, which sink its batches went to, which
run's it is, the columns that were inferred, and which batch was begun.

Owns those files, in a directory `penstock` of the checkpoint. They are reached through Hadoop's file systems, as the
checkpoint itself is, so that one on HDFS or S3 works as a local one does.

Invariant: a file is either whole or not there; it is written under another name first.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.core.exit_codes import ExitCode
from penstock.pipeline.declaration.redaction import redacted_url
from penstock.pipeline.failure import PipelineFailed, classify_text
from penstock.pipeline.sinks.sink import Sink
from penstock.pipeline.sources.source import Source
from penstock.pipeline.spark.internals import FileSystemFailure, HadoopDirectory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DIRECTORY: Final = "penstock"
_IDENTITY: Final = "identity.json"
_BEGUN: Final = "begun.json"
_OWNER: Final = "owner.json"
_SINKS: Final = "sinks.json"
SINKS_DIRECTORY: Final = "sinks"
"""Below the checkpoint of a pipeline with several sinks, a checkpoint for each of them by its name."""
_PLACE: Final = "sink.json"
_UNDO: Final = "undo the change to continue, or name another directory with --checkpoint to start over"


def fingerprint(sources: Mapping[str, Source]) -> dict[str, str]:
    """What each stream reads. Spark keeps positions by the order of streams: a checkpoint fits only the same ones."""
    return {name: source.identity for name, source in sources.items() if not source.is_static}


@dataclass(slots=True)
class Checkpoint:
    """`location` is a path or URL as Spark takes it."""

    spark: SparkSession
    location: str

    def claim(self, pipeline: str, sources: Mapping[str, Source], sink: Sink | None, streams: list[str]) -> str:
        """Makes the checkpoint this pipeline's, or raises when it is another's. Returns the id that it got at first.

        `streams` are what the query reads, in the order in which its plan does.
        """
        checkpoint_id = self.check(pipeline, sources, sink)
        stored = self.read(_IDENTITY)
        if checkpoint_id is None or stored is None:
            checkpoint_id = uuid.uuid4().hex
            stored = {"pipeline": pipeline, "sources": fingerprint(sources), "streams": streams, "id": checkpoint_id}
        if stored.get("streams") != streams:
            order = " then ".join(map(str, stored.get("streams") or ()))
            raise self._mismatch(f"the SQL reads {' then '.join(streams)}, and read {order} when it was made")
        # A checkpoint of an earlier version has no sink yet: it takes the one that it is started with.
        identity = None if sink is None else dict(sink.identity)
        if self.read(_IDENTITY) != {**stored, "sink": identity}:
            self.write(_IDENTITY, {**stored, "sink": identity})
        return checkpoint_id

    def check(self, pipeline: str, sources: Mapping[str, Source], sink: Sink | None) -> str | None:
        """Raises when the checkpoint is another pipeline's, or its batches went to another sink. Returns its id; None
        if it has no owner yet."""
        wanted = {"pipeline": pipeline, "sources": fingerprint(sources)}
        stored = self.read(_IDENTITY)
        if stored is None:
            if self.exists("offsets"):
                raise self._mismatch("it holds the progress of a query that is not a pipeline")
            return None
        if stored.get("pipeline") != pipeline:
            raise self._mismatch(f"it belongs to the pipeline '{stored.get('pipeline')}'")
        if stored.get("sources") != wanted["sources"]:
            raise self._mismatch(
                f"it was made for {_shown(stored.get('sources'))}, not for {_shown(wanted['sources'])}"
            )
        if sink is not None:
            self._check_sink(stored.get("sink"), sink)
        return str(stored["id"])

    def check_layout(self, *, has_several_sinks: bool) -> None:
        """Raises when it holds the progress of one sink and the pipeline has several, or the other way round."""
        if has_several_sinks and self.exists("offsets"):
            raise self._mismatch("it holds the progress of one sink (`sink`), and the pipeline names several (`sinks`)")
        if not has_several_sinks and self.exists(SINKS_DIRECTORY):
            raise self._mismatch("it holds the progress of several sinks (`sinks`), and the pipeline has one (`sink`)")

    def check_sink_names(self, sinks: Mapping[str, Sink]) -> None:
        """Of several sinks: raises when one that is new writes where one wrote that is gone. It was renamed, and would
        begin at the beginning, with rows that are there already."""
        stored = self.read(_SINKS) or {}
        for name, sink in sinks.items():
            if name in stored:
                continue
            renamed = [old for old, place in stored.items() if old not in sinks and place and place == _place(sink)]
            if renamed:
                raise self._mismatch(
                    f"sinks.{name} is new, and writes where sinks.{renamed[0]} wrote, so that rows would come again",
                    f"call it '{renamed[0]}' again, or write to another place",
                )

    def keep_sinks(self, sinks: Mapping[str, Sink]) -> None:
        """Those that are gone stay known."""
        stored = self.read(_SINKS) or {}
        known = {**stored, **{name: _place(sink) for name, sink in sinks.items()}}
        if known != stored:
            self.write(_SINKS, known)

    def _check_sink(self, stored: Any, sink: Sink) -> None:
        if not isinstance(stored, dict) or not self.has_batches:
            return
        # A part that only one of them knows is compared only if it tells kinds of sinks apart.
        is_same_kind = sink.discriminator in stored
        changed = [
            part
            for part in {**stored, **sink.identity}
            if stored.get(part) != sink.identity.get(part)
            and (not is_same_kind or (part in stored and part in sink.identity))
        ]
        if changed:
            raise self._mismatch(
                f"its batches went to the sink {_parts(stored, changed)}, and the pipeline now names"
                f" {_parts(sink.identity, changed)}, so that rows would be split over both",
                _UNDO,
            )

    def check_place(self, place_id: str | None, shown: str) -> None:
        """Raises if a sink does not hold what this checkpoint has written: it was removed, or is another one.

        A sink knows itself by an id that it keeps where its rows are (a ledger, a topic id, a marker), so that it is
        recognised under another host name, user or path. `place_id` is None if nothing of that is there.
        """
        stored = self.read(_PLACE)
        if stored is not None and self.has_batches and stored.get("id") != place_id:
            raise self._mismatch(
                f"its batches went to {stored.get('shown')}, and {shown} does not hold them: it was removed or"
                " created again, or it is another one",
                "go on with the one that they went to, or name another directory with --checkpoint to start over",
            )

    def keep_place(self, place_id: str, shown: str) -> None:
        """From now on, batches of this checkpoint go there."""
        place = {"id": place_id, "shown": shown}
        if self.read(_PLACE) != place:
            self.write(_PLACE, place)

    @property
    def has_batches(self) -> bool:
        """Whether Spark has planned a batch with it. Before that, nothing has reached a sink."""
        return self.last_number("offsets") >= 0

    def _mismatch(
        self, why: str, remedy: str = "name another directory with --checkpoint, or remove this one to start over"
    ) -> PipelineFailed:
        return PipelineFailed(
            f"the checkpoint {self.location} does not fit: {why}; {remedy}", ExitCode.CHECKPOINT_MISMATCH
        )

    def take_over(self, run: str) -> None:
        """From now on it is this run's. An earlier one that still runs finds out and ends.

        Spark itself lets both of them go on until they write the same file, and ends the second one.
        """
        self.write(_OWNER, {"run": run})

    def is_owned_by(self, run: str) -> bool:
        stored = self.read(_OWNER)
        return stored is None or stored.get("run") == run

    def inferred_columns(self, source: str) -> str | None:
        stored = self.read(f"columns-{source}.json")
        return None if stored is None else json.dumps(stored)

    def keep_columns(self, source: str, schema_json: str) -> None:
        self.write(f"columns-{source}.json", json.loads(schema_json))

    def last_begun(self) -> int:
        """The last batch that an at_most_once sink has recorded; -1 before the first."""
        stored = self.read(_BEGUN)
        return -1 if stored is None else int(stored["batch"])

    def begin(self, batch_id: int) -> None:
        self.write(_BEGUN, {"batch": batch_id})

    def unfinished_batch(self) -> int | None:
        """The batch that Spark has planned and not seen to its end; it will be run again."""
        planned, done = self.last_number("offsets"), self.last_number("commits")
        return planned if planned > done else None

    def remove_torn_plan(self) -> None:
        """Before a query starts: removes what is left of a first plan that was not written whole.

        Spark writes `offsets/0` under another name first. A full disk or a kill leaves that file, and Spark then takes
        the checkpoint for one whose plans were lost. It holds nothing: no batch was planned, so none has run.
        """
        if self.has_batches or self.last_number("commits") >= 0:
            return
        for name in self._directory.list_names("offsets"):
            if name.startswith("."):
                self._directory.delete_file(f"offsets/{name}")

    def require_planned(self, batch_id: int, query_id: str | None, holder: str) -> None:
        """Raises if a sink (`holder`, as in "table 'orders'") holds a batch that this checkpoint has never planned.

        It is an older copy then. Spark would give the numbers of batches that the sink holds to other rows, which the
        sink would take for written. `query_id` is what the sink has noted, if anything: other queries count from 0.
        """
        own = (self.read_file("metadata") or {}).get("id")
        if query_id in (None, own) and batch_id > self.last_number("offsets"):
            raise PipelineFailed(
                f"the checkpoint {self.location} is an older copy: {holder} holds batch {batch_id} of it already, and"
                " rows would be taken for written that are not; go on with the newest copy, or name another directory"
                " with --checkpoint to start over",
                ExitCode.CHECKPOINT_MISMATCH,
            )

    def last_number(self, directory: str) -> int:
        """The highest of the numbers that name files of one of Spark's logs; -1 if there are none."""
        return last_number(self._directory.list_names(directory))

    def exists(self, name: str) -> bool:
        return self._directory.exists(name)

    def read(self, name: str) -> dict[str, Any] | None:
        return self.read_file(f"{_DIRECTORY}/{name}")

    def read_file(self, name: str) -> dict[str, Any] | None:
        text = self._directory.read_text(name)
        if text is None:
            return None
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise self._mismatch(f"{name} in it cannot be read")
        return found

    def write(self, name: str, content: Mapping[str, Any]) -> None:
        self.write_file(f"{_DIRECTORY}/{name}", content)

    def write_file(self, name: str, content: Mapping[str, Any]) -> None:
        try:
            self._directory.write_text(name, json.dumps(content, sort_keys=True))
        except FileSystemFailure as failure:
            found = classify_text(str(failure))
            if found.exit_code == ExitCode.DISK_FULL:
                raise found.failure() from None
            raise PipelineFailed(
                f"the checkpoint {self.location} cannot be written: {found.line}; name another directory with"
                " --checkpoint, or make this one writable",
                ExitCode.NOT_WRITABLE,
            ) from None

    @property
    def _directory(self) -> HadoopDirectory:
        return HadoopDirectory(self.spark, self.location)


def _place(sink: Sink) -> str | None:
    """Where a sink writes, without how, as its author names it; None if it writes to no place, as the console does."""
    named = getattr(sink, sink.discriminator)
    url = getattr(sink, "url", None)
    if not isinstance(named, str):
        return None
    return f"{sink.discriminator} {named}" + (f" of {redacted_url(url)}" if url else "")


def last_number(names: Iterable[str]) -> int:
    """The highest of the numbers that name files of one of Spark's logs; -1 if there are none."""
    # A file sink's log now and then gathers what it has in one file, such as 9.compact.
    numbers = [name.partition(".")[0] for name in names]
    return max((int(number) for number in numbers if number.isdigit()), default=-1)


def _parts(identity: Mapping[str, Any], names: Iterable[str]) -> str:
    """As a pipeline file has it."""
    return "{" + ", ".join(f"{name}: {identity[name]}" for name in names if name in identity) + "}"


def _shown(sources: Any) -> str:
    if not isinstance(sources, dict) or not sources:
        return "nothing"
    return ", ".join(f"{name}: {reads}" for name, reads in sources.items())
