"""The first rows of a pipeline's result, without running it: `penstock run --preview 20`.

Sources are read as tables, from their first records on, and the transform is applied once. Nothing is written: no
sink, no checkpoint, no consumer group, no dead letters; bad rows are shown beside the others. An aggregation is that of
the records that were read.

Owns what is read and how it is shown. What a pipeline does with its rows is in `run.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Final

from penstock.pipeline.declaration.redaction import redacted
from penstock.pipeline.failure import PipelineFailed, classify
from penstock.pipeline.rows.dead_letters import DEAD_LETTER
from penstock.pipeline.run import PipelineRun
from penstock.pipeline.spark.messages import quiet_pyspark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.pipeline.analysis import TextOrigin
    from penstock.pipeline.api import PipelinePlan
    from penstock.pipeline.declaration.spec import PipelineHead, PipelineSpec
    from penstock.pipeline.run_settings import RunSettings

# A filter or a join leaves few of the records that are read.
_RECORDS_PER_ROW: Final = 50
_RECORDS_MIN: Final = 1_000
_BAD_ROW_COLUMNS: Final = ("topic", "partition", "offset", "stage", "reason", "value")


@dataclass(frozen=True, slots=True)
class Preview:
    """`bad` are rows that do not parse, break an expectation or fail in the transform; each says why."""

    title: str
    columns: Sequence[str]
    rows: Sequence[dict[str, Any]]
    bad: Sequence[dict[str, Any]]


class PreviewRun(PipelineRun):
    """Stands in for a run. `shown` is called with what was found."""

    def __init__(self, head: PipelineHead, settings: RunSettings, rows: int, shown: Callable[[Preview], None]) -> None:
        super().__init__(head, settings, preview_rows=max(_RECORDS_MIN, rows * _RECORDS_PER_ROW))
        self._rows = rows
        self._shown = shown

    def execute(self, plan: PipelinePlan, origin: TextOrigin | None = None) -> None:
        spec = plan.spec.located(self.settings.directory)
        try:
            self._transform(plan, spec, origin)
            self._guards = self._found_guards()
            found = self._previews(plan, spec, origin)
        except PipelineFailed as failure:
            line = redacted(str(failure), spec.secrets())
            raise PipelineFailed(line, failure.exit_code, failure.entry.condition) from None
        for preview in found:
            self._shown(preview)

    def _previews(self, plan: PipelinePlan, spec: PipelineSpec, origin: TextOrigin | None) -> list[Preview]:
        """One for each sink; the bad rows, which are those of the sources, with the first."""
        results = self._transform(plan, spec, origin)
        bad: list[dict[str, Any]] = []
        for read in self._reads.values():
            if read.bad is not None and len(bad) < self._rows:
                bad += _first(read.bad.select(f"{DEAD_LETTER}.*").withColumn("value", _text()), self._rows - len(bad))
        return [
            Preview(
                spec.name if result.spec.sink_name is None else f"{spec.name}, sink {result.spec.sink_name}",
                result.rows.columns,
                _first(result.rows, self._rows),
                bad if number == 0 else (),
            )
            for number, result in enumerate(results)
        ]


def print_preview(found: Preview, output: IO[str], *, as_json: bool) -> None:
    """As tables; or a JSON object per row, `{"row": ...}` or `{"bad_row": ...}`."""
    if as_json:
        for kind, rows in (("row", found.rows), ("bad_row", found.bad)):
            for row in rows:
                print(json.dumps({kind: row}, ensure_ascii=False), file=output)
        return
    _print_table(f"{found.title}: first rows of the result", found.columns, found.rows, output)
    if found.bad:
        _print_table(f"{found.title}: bad rows", _BAD_ROW_COLUMNS, found.bad, output)


def _first(rows: DataFrame, count: int) -> list[dict[str, Any]]:
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f

    as_json = f.to_json(f.struct("*"), {"ignoreNullFields": "false"}).alias("row")
    try:
        with quiet_pyspark():
            return [json.loads(row["row"]) for row in rows.limit(count).select(as_json).collect()]
    except PySparkException as failure:
        raise classify(failure).failure() from failure


def _text() -> Any:
    from pyspark.sql import functions as f

    return f.make_valid_utf8(f.col("value").cast("string"))


def _print_table(title: str, columns: Sequence[str], rows: Sequence[dict[str, Any]], output: IO[str]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{title} ({len(rows)})", title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(_cell(row.get(column)) for column in columns))
    Console(file=output).print(table)


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
