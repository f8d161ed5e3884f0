"""The shape of a directory's files: what has to stay the same, so that readers can read all of them together.

Owns which changes of a pipeline's result or of its sink's keys would break readers, and what a person is told. It must
never know where the shape is kept.

- Columns are told apart by name and type. Parquet and JSON readers match them by name, so their order may change; CSV
  has nothing but their order.
- The format and the columns that became directories stay the same.
- Options of csv and json that readers have to repeat (a separator, a date format) stay the same. Compression may
  change: each file says how it is compressed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from penstock.pipeline.sinks.files.declaration import FileSink

_FREE_OPTIONS: Final = frozenset({"compression", "codec", "maxrecordsperfile"})
_POSITIONAL: Final = ("csv",)
_DESCRIBED: Final = ("parquet",)
"""Formats whose files describe themselves: no option of the writer concerns a reader."""


@dataclass(frozen=True, slots=True)
class FileShape:
    """`columns` are names and types, as Spark's SQL writes them, in their order."""

    format: str
    partition_by: tuple[str, ...]
    options: Mapping[str, str]
    columns: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, sink: FileSink, schema: StructType) -> FileShape:
        options = {
            name.lower(): str(value)
            for name, value in sink.options.items()
            if name.lower() not in _FREE_OPTIONS and sink.format not in _DESCRIBED
        }
        columns = tuple((field.name, field.dataType.simpleString()) for field in schema)
        return cls(sink.format, sink.partition_by or (), options, columns)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> FileShape | None:
        """None if the directory was marked by a version that did not keep its shape."""
        try:
            return cls(
                str(stored["format"]),
                tuple(stored["partition_by"]),
                dict(stored["options"]),
                tuple((str(name), str(kind)) for name, kind in stored["columns"]),
            )
        except (KeyError, TypeError, ValueError):
            return None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def breaks(self, before: FileShape, *, adds_columns: bool) -> str | None:
        """What has changed since `before` that readers could not read together; None if they can."""
        if before.format != self.format:
            return f"its files are {before.format}, and the pipeline writes {self.format}"
        if before.partition_by != self.partition_by:
            return (
                f"its directories are made of {_listed(before.partition_by)}, and the pipeline's of"
                f" {_listed(self.partition_by)}"
            )
        for name in sorted({*before.options, *self.options}):
            if before.options.get(name) != self.options.get(name):
                was, now = (shape.options.get(name, "the default") for shape in (before, self))
                return f"its files were written with the option {name} {was}, and the pipeline has {now}"
        return next(self._broken_columns(before, adds_columns), None)

    def _broken_columns(self, before: FileShape, adds_columns: bool) -> Iterator[str]:
        types = dict(self.columns)
        for name, kind in before.columns:
            if name not in types:
                yield f"its column '{name}' ({kind}) is not among the pipeline's"
            elif types[name] != kind:
                yield f"its column '{name}' is {kind}, and the pipeline's is {types[name]}"
        known = {name.lower() for name, _ in before.columns}
        for name, kind in self.columns:
            if (name, kind) in before.columns:
                continue
            if name.lower() in known:
                yield f"its column '{name.lower()}' differs from the pipeline's '{name}' only in case"
            elif self.format in _POSITIONAL:
                yield f"it has no column '{name}', and csv knows columns by their order only"
            elif not adds_columns:
                yield (
                    f"it has no column '{name}' ({kind}); schema_evolution: add_columns adds it, for readers that take"
                    " a missing column as null (mergeSchema of Spark's parquet reader)"
                )
        if self.format in _POSITIONAL and self.columns != before.columns:
            yield (
                f"its columns are {_listed(name for name, _ in before.columns)} in this order, and the pipeline's are"
                f" {_listed(name for name, _ in self.columns)}"
            )


def _listed(names: Any) -> str:
    return ", ".join(names) or "no column"
