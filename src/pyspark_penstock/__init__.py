"""Where Spark finds the data source "penstock": it imports every module whose name begins with `pyspark_` and takes its
`DefaultSource`. That happens in every session that uses any Python data source, so nothing more is imported here than
Spark itself has."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """Topics of Penstock or Apache Kafka, with the options and columns of Spark's own Kafka source."""

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> StructType:
        from penstock.pipeline.topics.row_schema import row_schema

        return row_schema(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        _require_extra()
        from penstock.pipeline.topics.batch_reader import TopicBatchReader
        from penstock.pipeline.topics.options import read_batch_options
        from penstock.pipeline.topics.row_schema import columns_of

        return TopicBatchReader(read_batch_options(self.options), columns_of(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        _require_extra()
        from penstock.pipeline.topics.options import read_stream_options
        from penstock.pipeline.topics.row_schema import columns_of
        from penstock.pipeline.topics.stream_reader import TopicStreamReader

        return TopicStreamReader(read_stream_options(self.options), columns_of(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        writer: DataSourceWriter = _writer_module().batch_writer(self.options, schema, overwrite)
        return writer

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        writer: DataSourceStreamWriter = _writer_module().stream_writer(self.options, schema, overwrite)
        return writer


def _writer_module() -> Any:
    _require_extra()
    return import_module("penstock.pipeline.topics.writer")


def _require_extra() -> None:
    missing = [name for name in ("numba", "numpy", "pyarrow") if find_spec(name) is None]
    if missing:
        raise ImportError(f"the data source penstock needs {', '.join(missing)}: pip install 'penstock[spark]'")
