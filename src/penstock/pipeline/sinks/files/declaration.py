"""Files of a directory as a sink, as their author declares them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field, model_validator

from penstock.pipeline.declaration.locations import absolute_path
from penstock.pipeline.declaration.redaction import secrets_in_options
from penstock.pipeline.declaration.spec_values import Columns, Options, Text, refused
from penstock.pipeline.declaration.verdicts import BATCH_ID_FIRST, Kept
from penstock.pipeline.sinks.sink import OutputMode, Sink

if TYPE_CHECKING:
    from penstock.pipeline.sinks.sink_writer import SinkWriter


class FileSink(Sink):
    """Files of a directory."""

    discriminator: ClassVar[str] = "files"
    spelling: ClassVar[str] = "{files: ...}"
    guarantees: ClassVar = {
        "at_most_once": BATCH_ID_FIRST,
        "at_least_once": Kept("files are complete before progress is recorded"),
        "exactly_once": Kept("files count when the directory's _spark_metadata lists them; read it with Spark"),
    }

    files: Text = Field(description="The directory; local, hdfs:// or s3a://.", examples=["out/"])
    format: Literal["parquet", "json", "csv"] = Field(default="parquet", description="The format of the files.")
    partition_by: Columns | None = Field(
        default=None, description="Columns whose values become directories.", examples=[["day"]]
    )
    schema_evolution: Literal["none", "add_columns"] = Field(
        default="none",
        description="What happens when the result has columns that the directory's files do not have: the pipeline is"
        " refused (none), or adds them (add_columns). Every other change is refused.",
    )
    options: Options = Field(
        default_factory=dict,
        description="Options of Spark's writer for the format.",
        examples=[{"compression": "zstd"}],
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.schema_evolution == "add_columns" and self.format == "csv":
            raise refused("schema_evolution", "csv knows columns by their order only; use parquet or json")
        return self

    def writer(self) -> SinkWriter:
        from penstock.pipeline.sinks.files.writer import FileSinkWriter

        return FileSinkWriter(self)

    @property
    def identity(self) -> Mapping[str, str]:
        """The directory is recognised by its marker, also where it was moved to."""
        return {"files": "a directory"}

    def refused_output_mode(self, mode: OutputMode) -> str | None:
        if mode != "append":
            return "files are never changed once they are written; only append fits them"
        return None

    def secrets(self) -> Iterator[str]:
        return secrets_in_options(self.options)

    def located(self, directory: Path) -> Self:
        return self.model_copy(update={"files": absolute_path(self.files, directory)})
