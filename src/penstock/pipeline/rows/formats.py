"""From bytes to columns: the formats of a source, as Spark columns.

Owns how a value is parsed and how its columns are inferred from a sample. It must never know where values come from.

Invariant: a value that cannot be parsed yields a row whose column CORRUPT holds its text, or no row at all (NULL); it
never raises, and it never passes for a row of NULLs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import StructType

CORRUPT: Final = "__corrupt"
PARSED_FORMATS: Final = ("json", "csv")
"""Formats whose values may turn out not to be what they should."""
TINYINT_RANGE: Final = (-128, 127)
DECODED_FORMATS: Final = (*PARSED_FORMATS, "text")
"""Formats whose bytes have to be UTF-8."""


def reader_options(format_options: Mapping[str, Any]) -> dict[str, str]:
    """Options for Spark's parser, as text; what makes it report a bad value instead of failing is ours."""
    given = {name: _text(value) for name, value in format_options.items()}
    return given | {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}


def with_corrupt(schema: StructType) -> StructType:
    from pyspark.sql.types import StringType, StructField, StructType

    return StructType([*schema.fields, StructField(CORRUPT, StringType())])


def widened(schema: StructType, format_name: str) -> StructType:
    """The columns as they are parsed: Spark's JSON parser takes 200 for a TINYINT, and makes -56 of it."""
    from pyspark.sql.types import ByteType, ShortType, StructField, StructType

    if format_name != "json":
        return schema
    return StructType(
        [
            StructField(field.name, ShortType() if isinstance(field.dataType, ByteType) else field.dataType)
            for field in schema.fields
        ]
    )


def fields_of(row: Column, schema: StructType) -> dict[str, Column]:
    """The columns of a row that was parsed as `widened` has them, in their own types; NULL for what does not fit."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import ByteType

    return {
        field.name: f.when(row[field.name].between(*TINYINT_RANGE), row[field.name]).cast("tinyint")
        if isinstance(field.dataType, ByteType)
        else row[field.name]
        for field in schema.fields
    }


def declared_columns(columns: str) -> StructType:
    """Columns as in CREATE TABLE."""
    from pyspark.sql.types import StructType

    schema = StructType.fromDDL(columns)
    assert isinstance(schema, StructType)  # the pipeline was checked; a lone type is no list of columns
    return schema


def parsed(value: Column, format_name: str, schema: StructType, format_options: Mapping[str, Any]) -> Column:
    """A struct of the schema's columns, as `widened` has them, and CORRUPT, out of a text column."""
    from pyspark.sql import functions as f

    options = reader_options(format_options)
    if format_name == "json":
        return f.from_json(value, with_corrupt(widened(schema, format_name)), options)
    return f.from_csv(value, with_corrupt(schema).toDDL(), options)


def infer_schema(
    spark: SparkSession, sample: Sequence[str], format_name: str, format_options: Mapping[str, Any]
) -> StructType:
    """The columns of a sample of values; corrupt ones do not count."""
    from pyspark.sql.types import StructType

    lines = spark.sparkContext.parallelize(list(sample), 1)
    reader = spark.read.options(**reader_options(format_options))
    if format_name == "csv":
        found = reader.option("inferSchema", "true").csv(lines).schema
    else:
        found = reader.json(lines).schema
    return StructType([field for field in found.fields if field.name != CORRUPT])


def evaluated_once(column: Column) -> Column:
    """The same column, in an expression that Spark's optimizer neither repeats nor moves filters below.

    Without it a filter on a parsed field is pushed below the parsing, which is then done twice for every row.
    """
    from pyspark.sql import functions as f

    return f.when(f.spark_partition_id() >= 0, column)


def rarely_evaluated(column: Column) -> Column:
    """The same column, outside of the code that Spark generates for every row.

    What few rows need would make that code too large for Java's compiler, and every row slow.
    """
    from pyspark.sql import functions as f

    # Spark generates no code for zip_with, but does for transform.
    one = f.array(f.lit(0))
    return f.element_at(f.zip_with(one, one, lambda _first, _second: column), 1)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
