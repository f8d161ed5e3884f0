"""The directory of a file sink: whose it is, what shape its files have, and whether it can be written.

Owns the marker in it, and every refusal of a directory before the first row.

Invariants:
- A directory belongs to one checkpoint. Files of anybody else are never added to.
- All its files have one shape (`shape.py`). A start that would change it is refused before it writes anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from penstock.core.errors import PenstockError
from penstock.core.exit_codes import ExitCode
from penstock.pipeline.checkpoint import Checkpoint, last_number
from penstock.pipeline.failure import PipelineFailed, classify_text
from penstock.pipeline.sinks.files.shape import FileShape
from penstock.pipeline.spark.internals import MANIFEST, FileSystemFailure, HadoopDirectory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Names that begin with an underscore are invisible to Spark's readers.
_MARKER: Final = "_penstock"
_HIDDEN: Final = ("_", ".")
_NAMES_SHOWN_MAX: Final = 3
_CAUSES: Final = (
    (re.compile(r"permission denied|accesscontrolexception|access denied", re.IGNORECASE), "permission denied"),
    (re.compile(r"read-only file system", re.IGNORECASE), "the file system is read-only"),
    (re.compile(r"not a directory|parentnotdirectory", re.IGNORECASE), "part of the path is a file"),
    (re.compile(r"mkdirs failed|failed to create directory|cannot create|exists and is not a dir", re.IGNORECASE), ""),
    (re.compile(r"filenotfoundexception|no such file or directory", re.IGNORECASE), ""),
)


class DirectoryNotWritable(PenstockError):
    """The directory of a file sink cannot be written; retrying does not help."""

    condition = "PENSTOCK_NOT_WRITABLE"

    @property
    def fields(self) -> Mapping[str, str]:
        return {"key": "sink.files"}


def not_writable(path: str, text: str) -> DirectoryNotWritable | None:
    """The error for a failure of a file system; None if the directory is not what it is about."""
    if path.rstrip("/") not in text:
        return None
    for pattern, cause in _CAUSES:
        if pattern.search(text):
            why = cause or "it cannot be created there"
            return DirectoryNotWritable(
                f"{path} cannot be written: {why}; let the user of this pipeline create and write it, or name another"
                " directory"
            )
    return None


class OutputDirectory:
    """`path` is a directory as Spark takes it."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._files = HadoopDirectory(spark, path)
        self._path = path

    def claim(
        self,
        pipeline: str,
        checkpoint: Checkpoint,
        checkpoint_id: str,
        shape: FileShape,
        *,
        is_listed: bool,
        adds_columns: bool,
    ) -> None:
        """Makes the directory this checkpoint's, or raises PipelineFailed. `is_listed`: MANIFEST lists what counts."""
        if self._files.is_file():
            raise PipelineFailed(
                f"sink.files: {self._path} is a file, and the sink writes a directory; name another path, or remove it",
                ExitCode.NOT_WRITABLE,
            )
        shown = f"directory {self._path}"
        marker = self._marker()
        checkpoint.check_place(None if marker is None else str(marker.get("checkpoint")), shown)
        self._check_owner(marker, checkpoint, checkpoint_id)
        self._check_listed(marker, is_listed)
        before = None if marker is None else FileShape.from_json(marker)
        if before is not None and (change := shape.breaks(before, adds_columns=adds_columns)) is not None:
            raise PipelineFailed(
                f"sink.files: {self._path} could not be read as a whole any more: {change}; undo the change (CAST in"
                " the SELECT, for example), or start over with another directory and another --checkpoint",
                ExitCode.SINK_REFUSED,
            )
        wanted = {"pipeline": pipeline, "checkpoint": checkpoint_id, "listed": is_listed, **shape.to_json()}
        # As JSON has it: tuples are lists there.
        if marker is None or FileShape.from_json(marker) != shape or marker.get("listed") != is_listed:
            self._write(wanted)
        checkpoint.keep_place(checkpoint_id, shown)
        if is_listed:
            checkpoint.require_planned(last_number(self._files.list_names(MANIFEST)), None, shown)

    def _check_owner(self, marker: Mapping[str, Any] | None, checkpoint: Checkpoint, checkpoint_id: str) -> None:
        if marker is not None and marker.get("checkpoint") == checkpoint_id:
            return
        if marker is not None or self._files.exists(MANIFEST):
            owner = f"by the pipeline '{marker.get('pipeline')}' " if marker is not None else ""
            raise PipelineFailed(
                f"sink.files: {self._path} was written {owner}with another checkpoint, and rows would be mixed or taken"
                " for its rows; write to another directory, or go on with that checkpoint",
                ExitCode.SINK_REFUSED,
            )
        names = self._visible_names()
        if names and not checkpoint.has_batches:  # earlier versions did not mark the directories of all guarantees
            listed = ", ".join(sorted(names)[:_NAMES_SHOWN_MAX]) + (", ..." if len(names) > _NAMES_SHOWN_MAX else "")
            raise PipelineFailed(
                f"sink.files: {self._path} holds files that this pipeline did not write ({listed}), and readers would"
                " take them together; write to a new or an empty directory",
                ExitCode.SINK_REFUSED,
            )

    def _check_listed(self, marker: Mapping[str, Any] | None, is_listed: bool) -> None:
        """Readers go by MANIFEST alone as soon as there is one."""
        if not is_listed and self._files.exists(MANIFEST):
            raise PipelineFailed(
                f"sink.files: {self._path} was written with exactly_once, and its list of files ({MANIFEST}) would hide"
                " what is added with another guarantee; write to another directory",
                ExitCode.SINK_REFUSED,
            )
        was_listed = marker is not None and marker.get("listed", True)
        if is_listed and not was_listed and self._visible_names():
            raise PipelineFailed(
                f"sink.files: {self._path} was written without exactly_once, whose list of files ({MANIFEST}) would"
                " hide what is there; write to another directory",
                ExitCode.SINK_REFUSED,
            )

    def _visible_names(self) -> list[str]:
        return [name for name in self._files.list_names("") if not name.startswith(_HIDDEN)]

    def _marker(self) -> dict[str, Any] | None:
        text = self._files.read_text(_MARKER)
        if text is None:
            return None
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise PipelineFailed(
                f"sink.files: {_MARKER} in {self._path} cannot be read, so it is unknown whose files these are; write"
                " to another directory",
                ExitCode.SINK_REFUSED,
            )
        return found

    def _write(self, marker: Mapping[str, Any]) -> None:
        try:
            self._files.write_text(_MARKER, json.dumps(marker, sort_keys=True))
        except FileSystemFailure as failure:
            error = not_writable(self._path, f"{self._path} {failure}")
            if error is not None:
                raise PipelineFailed(f"sink.files: {error}", ExitCode.NOT_WRITABLE) from None
            found = classify_text(str(failure))
            raise PipelineFailed(
                f"sink.files: {self._path} cannot be written: {found.line}", found.exit_code, found.condition
            ) from None
