"""The table source at run time: a database table as a DataFrame, read whole when the pipeline starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.core.exit_codes import ExitCode
from penstock.pipeline.failure import PipelineFailed
from penstock.pipeline.rows.formats import declared_columns
from penstock.pipeline.sinks.table.databases import dialect_of
from penstock.pipeline.sources.source_reader import SourceRead, SourceReader, SourceRows
from penstock.pipeline.sources.table.declaration import TableSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DENIED: Final = ("password", "authentication", "permission denied", "access denied", "command denied")


class TableSourceReader(SourceReader):
    def __init__(self, source: TableSource) -> None:
        self._source = source

    def rows(self, read: SourceRead) -> SourceRows:
        return SourceRows(self._in_declared_types(read.spark.createDataFrame(_read(self._source))))

    def _in_declared_types(self, frame: DataFrame) -> DataFrame:
        if self._source.declared_schema is None:
            return frame
        declared = declared_columns(self._source.declared_schema)
        missing = [name for name in declared.names if name not in frame.columns]
        if missing:
            raise PipelineFailed(f"table {self._source.table} has no column '{missing[0]}'", ExitCode.SINK_REFUSED)
        return frame.select(*(frame[field.name].cast(field.dataType).alias(field.name) for field in declared.fields))


def _read(source: TableSource) -> Any:
    try:
        return dialect_of(source.url).read_table(source.url, source.table)
    except Exception as failure:  # whatever the driver of a database raises
        reason = " ".join(str(failure).split())
        denied = any(word in reason.lower() for word in _DENIED)
        code = ExitCode.ACCESS_DENIED if denied else ExitCode.NOT_FOUND
        remedy = "check the user, the password and what it may read" if denied else "check the url and the table's name"
        raise PipelineFailed(f"table {source.table} cannot be read: {reason}; {remedy}", code) from None
