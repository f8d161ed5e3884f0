"""Derives docs/errors.md from the table of error conditions and the table of Spark's failures.

Run without arguments to write the page; with --check to learn from the exit code whether it is up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from derived_page import write_or_check

from penstock.core.error_table import SECTIONS, ErrorEntry
from penstock.pipeline.spark.conditions import SPARK_FAILURES

PAGE = Path(__file__).resolve().parent.parent / "docs" / "errors.md"
INTRODUCTION = """\
# Error conditions

<!-- derived by tools/derive_errors.py from src/penstock/core/error_table.py: edit that, then run `make errors` -->

Every error of Penstock has a condition: a stable name that scripts and runbooks can rely on. It stands

- in tracebacks, also in those that Spark shows for its Python processes, as a line of its own:
  `[PENSTOCK_SINK_FENCED] {"message": "..."}`;
- in the event `restarting` of `penstock run --json`, as `condition`.

*Exit code* is that of `penstock run` when a pipeline ends with the error; [cli.md](cli.md#exit-codes) lists them.
*Retry* is what a running pipeline does: it restarts from its last commit with growing pauses.

| retry | |
|---|---|
| no | The pipeline ends. |
| a few times | The pipeline ends after four attempts without progress. |
| until it returns | The pipeline waits for the server for as long as it takes; with `--once`, four attempts. |
| only while the checkpoint belongs to this run | The run that started last continues; an earlier one ends. |
"""
SPARK = """\
## Spark's own conditions

A failure that Spark reports itself is mapped to one of the conditions above. Any other is `PENSTOCK_UNEXPECTED`.

| Spark's condition or text | becomes |
|---|---|
"""


def section(title: str, entries: Iterable[ErrorEntry]) -> str:
    lines = [f"## {title}", "", "| condition | exit code | retry | meaning | what to do |", "|---|---|---|---|---|"]
    lines += [
        f"| `{entry.condition}` | {int(entry.exit_code)} | {entry.retry.value} | {entry.meaning} | {entry.remedy} |"
        for entry in entries
    ]
    return "\n".join(lines) + "\n"


def spark_section() -> str:
    rows = []
    for failure in SPARK_FAILURES:
        names = [f"`{name}`" for name in failure.conditions]
        texts = [f'"{text}"' for text in failure.samples]
        rows.append(f"| {', '.join(names + texts)} | `{failure.condition}` |")
    return SPARK + "\n".join(rows) + "\n"


def page() -> str:
    parts = [INTRODUCTION, *(section(title, entries) for title, entries in SECTIONS.items()), spark_section()]
    return "\n".join(parts)


def main(arguments: Sequence[str]) -> int:
    return write_or_check(
        arguments, PAGE, lambda _present: page(), "the error table says something else; run make errors", __doc__
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
