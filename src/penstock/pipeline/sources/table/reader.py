"""The table source at run time: a database table as a DataFrame, read whole when the pipeline starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.core.exit_codes import ExitCode
from penstock.pipeline.failure import PipelineFailed
from penstock.pipeline.rows.formats import declared_columns
from penstock.pipeline.sources.source_reader import SourceRead, SourceReader, SourceRows
from penstock.pipeline.sources.table.declaration import TableSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
    name = ".".join('"' + part.replace('"', '""') + '"' for part in source.table.split("."))
    try:
        with _connect(source.url) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {name}")  # noqa: S608 (the name is quoted)
            return cursor.fetch_arrow_table()
    except Exception as failure:  # whatever the driver of a database raises
        reason = " ".join(str(failure).split())
        denied = "password" in reason or "authentication" in reason or "permission denied" in reason
        code = ExitCode.ACCESS_DENIED if denied else ExitCode.NOT_FOUND
        remedy = "check the user, the password and what it may read" if denied else "check the url and the table's name"
        raise PipelineFailed(f"table {source.table} cannot be read: {reason}; {remedy}", code) from None


def _connect(url: str) -> Any:
    if url.startswith("sqlite:///"):
        from adbc_driver_sqlite import dbapi as sqlite

        return sqlite.connect(url.removeprefix("sqlite:///"))
    from adbc_driver_postgresql import dbapi as postgresql  # type: ignore[import-untyped]

    return postgresql.connect(url)
