"""What a running pipeline shows: a live view for a person, a line for each event otherwise, JSON lines for a program.

Owns the words and the layout. It must never know a query: all that it is told are events. Rows of the console sink go
to stdout, everything else to stderr.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any, Final

from penstock.pipeline.run_settings import Event
from penstock.pipeline.status import UP_TO_DATE, PipelineStatus

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

_PARTITIONS_SHOWN: Final = 8


def json_lines(output: IO[str]) -> Callable[[Event], None]:
    """One JSON object a line, flushed: a program that reads along sees it at once."""
    writing = threading.Lock()

    def report(event: Event) -> None:
        line = json.dumps({"at": round(time.time(), 3), **event}, default=str)
        with writing:
            print(line, file=output, flush=True)

    return report


class LiveView:
    """Call it with events; `close` leaves the last state on the screen. `log` gets lines instead of the screen."""

    def __init__(
        self,
        screen: IO[str],
        rows: IO[str],
        *,
        interactive: bool,
        quiet: bool = False,
        log: Callable[[str, int], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._screen = screen
        self._rows = rows
        self._interactive = interactive
        self._quiet = quiet
        self._log = log
        self._live: Live | None = None
        self._status = PipelineStatus("", clock=clock)
        self._has_caught_up = False

    @classmethod
    def for_a_program(cls, screen: IO[str]) -> LiveView:
        """A program that a person runs shows what the command would; another one is silent, but for failures."""
        return cls(screen, sys.stdout, interactive=screen.isatty(), quiet=not screen.isatty())

    def __call__(self, event: Event) -> None:
        before = self._status.state
        self._status.name = str(event["pipeline"])
        self._status.apply(event)
        kind = event["event"]
        if kind == "rows":
            self._show_rows(event)
        elif kind == "warning":
            self._warn(f"{event['pipeline']}: {event['message']}")
        elif kind == "stopped":
            self.close()
            self._say(f"{event['pipeline']}: {told(event)}")
            return
        elif not self._interactive:
            self._tell(event, before)
        if self._interactive:
            self._refresh()

    def _tell(self, event: Event, before: str) -> None:
        """What happens, in lines; progress of a pipeline that runs well is not worth one."""
        kind = event["event"]
        if before == "RESTARTING" and self._status.state == "RUNNING":
            self._say(f"{event['pipeline']}: {_RUNNING_AGAIN}")
        elif kind in ("started", "restarting", "waiting", "resumed") or (kind == "idle" and not self._has_caught_up):
            self._has_caught_up |= kind == "idle"
            self._say(f"{event['pipeline']}: {told(event)}")

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _warn(self, text: str) -> None:
        """Above the live view, where it stays."""
        if self._live is not None:
            self._live.console.print(f"penstock: warning: {text}", markup=False, highlight=False)
        elif self._log is not None:
            self._log(text, logging.WARNING)
        else:
            self._say(f"warning: {text}")

    def _say(self, text: str, level: int = logging.INFO) -> None:
        if self._log is not None:
            self._log(text, level)
        elif not self._quiet:
            print(f"penstock: {text}", file=self._screen, flush=True)

    def _refresh(self) -> None:
        from rich.console import Console
        from rich.live import Live

        if self._live is None:
            console = Console(file=self._screen)
            self._live = Live(console=console, refresh_per_second=4, get_renderable=self._drawn)
            self._live.start()

    def _drawn(self) -> RenderableType:
        from rich.table import Table
        from rich.text import Text

        status = self._status
        table = Table.grid(padding=(0, 2))
        title = f"{status.name} · {status.guarantee}" if status.guarantee else status.name
        table.add_row(Text(title, style="bold"))
        progress = status.progress
        if progress:
            total = status.total
            table.add_row("rows", f"{total['rows']:,}", f"{status.rows_per_second:,.0f}/s")
            table.add_row("batch", f"{progress['batch']:,}", f"{progress['batch_ms']:,} ms")
            table.add_row("lag", f"{progress['lag']:,}", _lags(progress["lag_by_partition"]))
            if progress.get("watermark"):
                table.add_row("watermark", str(progress["watermark"]), "")
            for key, word in _COUNTS.items():
                if total[key]:
                    table.add_row(Text(word, style="yellow"), f"{total[key]:,}", "")
        if status.reason:
            style = "yellow" if status.state == "RUNNING" else "red"
            restart = "restarting: " if status.state == "RESTARTING" else ""
            table.add_row(Text(f"{restart}{status.reason}", style=style), "", "")
        elif status.state in ("UNASSIGNED", "STARTING"):
            table.add_row(Text("starting", style="yellow"), "", "")
        else:
            table.add_row(Text(status.activity or ("" if progress else "waiting for the first batch")), "", "")
        return table

    def _show_rows(self, event: Event) -> None:
        if self._quiet:
            return
        from rich.console import Console
        from rich.table import Table

        table = Table(title=f"batch {event['batch']}: {_count(event['count'], 'row')}", title_justify="left")
        for column in event["columns"]:
            table.add_column(column)
        for row in event["rows"]:
            table.add_row(*(_cell(row.get(column)) for column in event["columns"]))
        console = self._live.console if self._live is not None and self._rows.isatty() else Console(file=self._rows)
        console.print(table)


_COUNTS: Final = {"dead_letters": "dead letters", "dropped": "dropped"}


def told(event: Event) -> str | None:
    """An event as a line for a person; None if it is not worth one."""
    kind = event["event"]
    if kind == "starting":
        return "starting"
    if kind == "started":
        return f"running, {event['guarantee']}; checkpoint {event['checkpoint']}"
    if kind == "progress":
        lag = f", lag {event['lag']:,}" if event["lag"] else ""
        return f"batch {event['batch']}: {_count(event['rows'], 'row')} in {event['batch_ms']:,} ms{lag}"
    if kind == "idle":
        return UP_TO_DATE
    if kind == "waiting":
        return str(event["reason"])
    if kind == "resumed":
        return _RUNNING_AGAIN
    if kind == "restarting":
        return f"restarting in {event['in_seconds']:.0f} s: {event['reason']}"
    if kind == "failed":
        return "\n  ".join(["failed: " + str(event["reason"]), *event.get("problems", [])[1:]])
    if kind == "exception":
        return str(event["traceback"]).rstrip()
    if kind == "rows":
        return f"batch {event['batch']}: " + "; ".join(json.dumps(row) for row in event["rows"])
    if kind == "stopped":
        return f"stopped after {_counted(event['total'])}" if "total" in event else "stopped"
    return None


_RUNNING_AGAIN: Final = "running again"


def _counted(total: Event) -> str:
    """What a run has done."""
    parts = [f"{_count(total['rows'], 'row')} in {_count(total['batches'], 'batch')}"]
    if total["dead_letters"]:
        parts.append(_count(total["dead_letters"], "dead letter"))
    if total["dropped"]:
        parts.append(f"{total['dropped']:,} dropped")
    return ", ".join(parts)


def _count(number: int, word: str) -> str:
    ending = "" if number == 1 else "es" if word.endswith("ch") else "s"
    return f"{number:,} {word}{ending}"


def _lags(by_topic: Any) -> str:
    lags = [(f"{topic}-{number}", lag) for topic, numbers in by_topic.items() for number, lag in numbers.items()]
    behind = sorted((entry for entry in lags if entry[1]), key=lambda entry: -entry[1])
    shown = ", ".join(f"{name}: {lag:,}" for name, lag in behind[:_PARTITIONS_SHOWN])
    more = len(behind) - _PARTITIONS_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    return value if isinstance(value, str) else json.dumps(value)
