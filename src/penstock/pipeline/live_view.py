"""What a running pipeline shows: a live view for a person, a line for each event otherwise, JSON lines for a program.

Owns the words and the layout. It must never know a query: all that it is told are events. Rows of the console sink go
to stdout, everything else to stderr.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any, Final

from penstock.pipeline.run_settings import Event

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

_PARTITIONS_SHOWN: Final = 8
_RATE_WINDOW_S: Final = 5.0


def json_lines(output: IO[str]) -> Callable[[Event], None]:
    """One JSON object a line, flushed: a program that reads along sees it at once."""
    writing = threading.Lock()

    def report(event: Event) -> None:
        line = json.dumps({"at": round(time.time(), 3), **event}, default=str)
        with writing:
            print(line, file=output, flush=True)

    return report


class LiveView:
    """Call it with events; `close` leaves the last state on the screen."""

    def __init__(self, screen: IO[str], rows: IO[str], *, interactive: bool, quiet: bool = False) -> None:
        self._screen = screen
        self._rows = rows
        self._interactive = interactive
        self._quiet = quiet
        self._live: Live | None = None
        self._title = ""
        self._progress: Event = {}
        self._note = ""
        self._recent: list[tuple[float, int]] = []

    @classmethod
    def for_a_program(cls, screen: IO[str]) -> LiveView:
        """A program that a person runs shows what the command would; another one is silent, but for failures."""
        return cls(screen, sys.stdout, interactive=screen.isatty(), quiet=not screen.isatty())

    def __call__(self, event: Event) -> None:
        kind = event["event"]
        if kind == "starting":
            self._title, self._note = str(event["pipeline"]), "starting Spark"
        elif kind == "started":
            self._title = f"{event['pipeline']} · {event['guarantee']}"
            self._note = ""
            self._line(f"{event['pipeline']}: running, {event['guarantee']}; checkpoint {event['checkpoint']}")
        elif kind == "progress":
            self._progress, self._note = event, ""
            self._recent.append((time.monotonic(), int(event["rows"])))
        elif kind == "rows":
            self._show_rows(event)
        elif kind == "restarting":
            self._note = f"restarting in {event['in_seconds']:.0f} s: {event['reason']}"
            self._line(f"{event['pipeline']}: {self._note}")
        elif kind == "stopped":
            self.close()
            total = event["total"]
            counted = [f"{_count(total['rows'], 'row')} in {_count(total['batches'], 'batch')}"]
            if total["dead_letters"]:
                counted.append(_count(total["dead_letters"], "dead letter"))
            if total["dropped"]:
                counted.append(f"{total['dropped']:,} dropped")
            self._say(f"{event['pipeline']}: stopped after {', '.join(counted)}")
            return
        if self._interactive:
            self._refresh()

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _line(self, text: str) -> None:
        if not self._interactive:
            self._say(text)

    def _say(self, text: str) -> None:
        if not self._quiet:
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

        table = Table.grid(padding=(0, 2))
        table.add_row(Text(self._title, style="bold"))
        progress = self._progress
        if progress:
            total = progress["total"]
            table.add_row("rows", f"{total['rows']:,}", f"{self._rate():,.0f}/s")
            table.add_row("batch", f"{progress['batch']:,}", f"{progress['batch_ms']:,} ms")
            table.add_row("lag", f"{progress['lag']:,}", _lags(progress["lag_by_partition"]))
            if progress.get("watermark"):
                table.add_row("watermark", str(progress["watermark"]), "")
            for key, word in _COUNTS.items():
                if total[key]:
                    table.add_row(Text(word, style="yellow"), f"{total[key]:,}", "")
        elif not self._note:
            table.add_row("waiting for the first batch", "", "")
        if self._note:
            table.add_row(Text(self._note, style="red"), "", "")
        return table

    def _rate(self) -> float:
        now = time.monotonic()
        self._recent = [(at, rows) for at, rows in self._recent if now - at < _RATE_WINDOW_S]
        return sum(rows for _, rows in self._recent) / _RATE_WINDOW_S

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
