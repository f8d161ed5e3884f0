"""How pipelines are shown: the rows of `penstock ps` and of `penstock up`, and the lines of `penstock status`.

Invariant: an unknown value is `-`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from rich.table import Table

COLUMNS: Final = ("NAME", "STATE", "GUARANTEE", "ROWS/S", "LAG", "LAST-BATCH", "DEAD-LETTERS", "RESTARTS", "NOTE")
_STYLES: Final = {"RUNNING": "green", "FAILED": "red", "RESTARTING": "yellow", "STARTING": "yellow", "STOPPED": "dim"}
_NOTHING: Final = "-"
_NUMBERS: Final = ("ROWS/S", "LAG", "DEAD-LETTERS", "RESTARTS")

Status = Mapping[str, Any]


def row(status: Status, now_s: float | None = None) -> list[str]:
    last = status["last_batch"]
    return [
        str(status["name"]),
        str(status["state"]),
        status["guarantee"] or _NOTHING,
        f"{status['rows_per_second']:,.0f}" if status["state"] == "RUNNING" else _NOTHING,
        _NOTHING if status["lag"] is None else f"{status['lag']:,}",
        _NOTHING if last is None else f"{_duration(last['batch_ms'])}, {_age(last['at'], now_s)} ago",
        f"{status['total']['dead_letters']:,}",
        f"{status['restarts']:,}",
        note(status),
    ]


def note(status: Status) -> str:
    if status["stopping"]:
        return "stopping: finishes its batch"
    if status["reason"]:
        return str(status["reason"])
    if status["attached"]:
        attached = f"attached to pid {status['pid']}"
        return f"{attached}; {status['activity']}" if status["activity"] else attached
    return str(status["activity"] or _NOTHING)


def rich_table(statuses: Sequence[Status], *, with_notes: bool) -> Table:
    """A note is a sentence: on a narrow terminal it stands below the table, as a reason always does."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for column in COLUMNS if with_notes else COLUMNS[:-1]:
        justify: Literal["left", "right"] = "right" if column in _NUMBERS else "left"
        table.add_column(column, justify=justify, overflow="fold", no_wrap=column in ("NAME", "STATE"))
    for status in statuses:
        cells = [Text(cell) for cell in row({**status, "reason": None})]
        cells[1].stylize(_STYLES.get(str(cells[1]), ""))
        table.add_row(*(cells if with_notes else cells[:-1]))
    return table


def details(status: Status) -> list[tuple[str, str]]:
    """What `penstock status NAME` prints, key by key."""
    total, last = status["total"], status["last_batch"]
    lines = [
        ("name", str(status["name"])),
        ("state", f"{status['state']} for {_age(status['since'])}"),
        ("guarantee", status["guarantee"] or _NOTHING),
        ("note", note(status)),
        ("rows", f"{total['rows']:,} in {total['batches']:,} batches, {status['rows_per_second']:,.0f}/s"),
        ("lag", _NOTHING if status["lag"] is None else f"{status['lag']:,}"),
    ]
    for topic, partitions in (status["lag_by_partition"] or {}).items():
        lines += [("", f"{topic}-{number}: {lag:,}") for number, lag in partitions.items()]
    if last is not None:
        text = f"{last['batch']}: {last['rows']:,} rows in {last['batch_ms']:,} ms, {_age(last['at'])} ago"
        lines.append(("last batch", text))
    if status["watermark"]:
        lines.append(("watermark", str(status["watermark"])))
    lines += [
        ("dead letters", f"{total['dead_letters']:,}"),
        ("dropped", f"{total['dropped']:,}"),
        ("restarts", f"{status['restarts']:,}"),
        ("checkpoint", status["checkpoint"] or _NOTHING),
        ("file", status["file"] or _NOTHING),
    ]
    lines += [("problem", problem) for problem in status["problems"]]
    return lines


def _duration(duration_ms: int) -> str:
    return f"{duration_ms:,} ms" if duration_ms < 10_000 else f"{duration_ms / 1000:,.0f} s"


def _age(at_s: float, now_s: float | None = None) -> str:
    seconds = max(0.0, (time.time() if now_s is None else now_s) - at_s)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
