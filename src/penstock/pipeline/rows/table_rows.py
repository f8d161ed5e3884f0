"""The rows of a database table, as a DataFrame to join a stream with. It is read whole, when the pipeline starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.core.exit_codes import ExitCode
from penstock.pipeline.declaration.source_spec import TableSource
from penstock.pipeline.failure import PipelineFailed
from penstock.pipeline.rows.formats import declared_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def table_rows(spark: SparkSession, source: TableSource) -> DataFrame:
    rows = _read(source)
    frame = spark.createDataFrame(rows)
    if source.declared_schema is None:
        return frame
    declared = declared_columns(source.declared_schema)
    missing = [name for name in declared.names if name not in frame.columns]
    if missing:
        raise PipelineFailed(f"table {source.table} has no column '{missing[0]}'", ExitCode.SINK_REFUSED)
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
