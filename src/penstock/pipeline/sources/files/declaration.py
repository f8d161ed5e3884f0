"""Files of a directory as a source, as their author declares them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from penstock.pipeline.declaration.locations import absolute_path
from penstock.pipeline.declaration.redaction import secrets_in_options
from penstock.pipeline.declaration.spec_values import Options, Text, refused
from penstock.pipeline.sources.source import StreamSource

if TYPE_CHECKING:
    from penstock.pipeline.sources.source_reader import SourceReader

FileFormat = Literal["json", "csv", "text", "binary", "parquet"]
# What a format yields when its author need not, or cannot, say.
_FIXED_COLUMNS: Final = {
    "text": "value STRING",
    "binary": "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY",
}


class FileSource(StreamSource):
    """Files of a directory, and those that arrive there later; or, with `static`, a table to join with."""

    discriminators: ClassVar[tuple[str, ...]] = ("files",)
    spelling: ClassVar[str] = "{files: ...}"

    files: Text = Field(description="A directory, a file or a glob; local, hdfs:// or s3a://.", examples=["incoming/"])
    format: FileFormat = Field(default="json", description="How a file becomes rows.")
    static: bool = Field(
        default=False, description="Read the files once, as a table to join with, instead of as a stream."
    )
    max_files_per_trigger: int | None = Field(
        default=None, gt=0, description="The most files that one micro-batch takes. Default: 1,000."
    )
    options: Options = Field(
        default_factory=dict, description="Any other option of Spark's file source.", examples=[{"cleanSource": "off"}]
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.static and self.watermark is not None:
            raise refused("watermark", "a static source has no event time that moves; take it out")
        self.check_stream(self.format, _FIXED_COLUMNS, self.options)
        return self

    def reader(self) -> SourceReader:
        from penstock.pipeline.sources.files.reader import FileSourceReader

        return FileSourceReader(self)

    @property
    def is_static(self) -> bool:
        return self.static

    @property
    def columns(self) -> str | None:
        return _FIXED_COLUMNS.get(self.format, self.declared_schema)

    @property
    def identity(self) -> str:
        return f"files {self.files}"

    def secrets(self) -> Iterator[str]:
        return secrets_in_options(self.options)

    def located(self, directory: Path) -> Self:
        return self.model_copy(update={"files": absolute_path(self.files, directory)})
