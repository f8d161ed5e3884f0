"""Which columns a source's format yields: declared, fixed, or inferred once and remembered with the checkpoint.

Inferring again at every start would make the columns of a pipeline depend on what happens to lie at the beginning of a
topic that day, and state in the checkpoint would no longer fit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from penstock.core.exit_codes import ExitCode
from penstock.pipeline.checkpoint import Checkpoint
from penstock.pipeline.declaration.source_spec import AnySource, FileSource, TableSource, TopicSource
from penstock.pipeline.failure import PipelineFailed
from penstock.pipeline.rows.formats import CORRUPT, PARSED_FORMATS, declared_columns, infer_schema, reader_options
from penstock.pipeline.rows.source_rows import topic_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

SAMPLE_ROWS: Final = 1000


def source_schema(
    spark: SparkSession, checkpoint: Checkpoint, name: str, source: AnySource, kafka: Mapping[str, str]
) -> StructType | None:
    """None where the format fixes the columns, or a table has its own."""
    from pyspark.sql.types import StructType

    if isinstance(source, TableSource) or source.format in ("text", "binary"):
        return None
    if source.declared_schema is not None:
        return declared_columns(source.declared_schema)
    stored = checkpoint.inferred_columns(name)
    if stored is not None:
        return StructType.fromJson(json.loads(stored))
    inferred = _of_topic(spark, name, source, kafka) if isinstance(source, TopicSource) else _of_files(spark, source)
    if not inferred.fields:
        raise PipelineFailed(
            f"the columns of {name} cannot be inferred: no row of the sample parses as {source.format}; declare its"
            " schema",
            ExitCode.INVALID_PIPELINE,
        )
    checkpoint.keep_columns(name, inferred.json())
    return inferred


def _of_topic(spark: SparkSession, name: str, source: TopicSource, kafka: Mapping[str, str]) -> StructType:
    options = {
        option: value
        for option, value in topic_options(source, kafka).items()
        if option.lower().startswith(("kafka.", "subscribe"))
    }
    rows = spark.read.format("penstock").options(**options, columns="value").load()
    sample = rows.where("value IS NOT NULL").selectExpr("CAST(value AS STRING) AS value").limit(SAMPLE_ROWS).collect()
    if not sample:
        raise PipelineFailed(
            f"the columns of {name} cannot be inferred: its topics hold no record yet; declare its schema",
            ExitCode.INVALID_PIPELINE,
        )
    return infer_schema(spark, [row["value"] for row in sample], source.format, source.format_options)


def _of_files(spark: SparkSession, source: FileSource) -> StructType:
    from pyspark.sql.types import StructType

    options: dict[str, Any] = dict(source.format_options)
    reader = spark.read.format(source.format)
    if source.format in PARSED_FORMATS:
        reader = reader.options(**reader_options(options))
    if source.format == "csv":
        reader = reader.option("inferSchema", "true")
    found = reader.load(source.files).schema
    return StructType([field for field in found.fields if field.name != CORRUPT])
