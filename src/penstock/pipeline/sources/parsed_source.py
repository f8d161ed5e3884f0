"""Sources whose values are parsed: which columns they have, and the way from raw values to good and bad rows.

Columns are declared, fixed by the format, or inferred once and stored with the checkpoint. Inferring again at every
start would make a pipeline's columns depend on the records that a topic happens to begin with that day, and state in
the checkpoint would no longer fit.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from penstock.core.exit_codes import ExitCode
from penstock.pipeline.failure import PipelineFailed
from penstock.pipeline.rows.bad_rows import REASON, dead_letter, quoted, without_bad
from penstock.pipeline.rows.dead_letters import DEAD_LETTER
from penstock.pipeline.rows.event_time import with_event_time
from penstock.pipeline.rows.formats import DECODED_FORMATS, declared_columns
from penstock.pipeline.rows.parse_reasons import Origin, ParsedColumns
from penstock.pipeline.sources.source import StreamSource
from penstock.pipeline.sources.source_reader import SourceRead, SourceReader, SourceRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


class ParsedSourceReader(SourceReader):
    def __init__(self, source: StreamSource, format_name: str) -> None:
        self._stream = source
        self._format = format_name

    @abstractmethod
    def tagged_rows(self, read: SourceRead, schema: StructType | None) -> tuple[DataFrame, list[str]]:
        """All rows with the tags of `bad_rows.py` if any may be bad, and the names of their data columns."""

    @abstractmethod
    def infer_columns(self, read: SourceRead) -> StructType:
        """The columns of a sample."""

    def rows(self, read: SourceRead) -> SourceRows:
        source = self._stream
        tagged, data = self.tagged_rows(read, self._columns(read))
        columns = list(map(quoted, data))
        if not self.may_be_bad(read):
            return SourceRows(with_event_time(tagged.select(*columns), source))
        on_bad_row = read.on_bad_row
        if source.is_static and on_bad_row == "dead_letters":
            on_bad_row = "stop"  # they would be published again with every batch that the table is joined with
        if on_bad_row != "dead_letters":
            return SourceRows(with_event_time(without_bad(tagged, read.name, on_bad_row).select(*columns), source))
        good = with_event_time(tagged.where(f"{REASON} IS NULL").select(*columns), source)
        bad = tagged.where(f"{REASON} IS NOT NULL").select(dead_letter().alias(DEAD_LETTER))
        if source.dedupe or source.watermark:
            return SourceRows(good, bad)
        return SourceRows(good, bad, tagged.select(*columns, dead_letter().alias(DEAD_LETTER)))

    def may_be_bad(self, read: SourceRead) -> bool:
        return self._format in DECODED_FORMATS or bool(self._stream.expect) or read.guard is not None

    def parsed_columns(self, schema: StructType, subject: str) -> ParsedColumns:
        source = self._stream
        origin: Origin = "inferred" if source.declared_schema is None else "declared"
        return ParsedColumns(self._format, schema, source.format_options, origin, subject)

    def _columns(self, read: SourceRead) -> StructType | None:
        """None where the format fixes the columns."""
        from pyspark.sql.types import StructType

        if self._format in ("text", "binary"):
            return None
        if self._stream.declared_schema is not None:
            return declared_columns(self._stream.declared_schema)
        stored = read.checkpoint.inferred_columns(read.name)
        if stored is not None:
            return StructType.fromJson(json.loads(stored))
        inferred = self.infer_columns(read)
        if not inferred.fields:
            raise PipelineFailed(
                f"the columns of {read.name} cannot be inferred: no row of the sample parses as {self._format}; declare"
                " its schema",
                ExitCode.INVALID_PIPELINE,
            )
        if read.preview_rows is None:
            read.checkpoint.keep_columns(read.name, inferred.json())
        return inferred


def option_text(value: Any) -> str:
    """A value of an option as Spark spells it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
