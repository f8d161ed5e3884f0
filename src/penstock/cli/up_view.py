"""What `penstock up` shows: a live table for a person, a line for each change otherwise, JSON lines for a program.

Owns the words, what counts as a change, and the layout. The table's cells are in `pipeline_table.py`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, Final, Self

from penstock.cli.pipeline_table import rich_table
from penstock.monitoring.logs import logs_json, say

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

Status = Mapping[str, Any]

_HINT: Final = "ctrl-C lets pipelines finish their batches and stops everything; the next `penstock up` continues"
_REFRESHES_PER_S: Final = 2
_WIDTH_WITH_NOTES: Final = 130


class UpView:
    """`show` takes the statuses of all pipelines as often as the caller likes; only changes are told."""

    def __init__(self, screen: IO[str], events: IO[str], *, interactive: bool, as_json: bool) -> None:
        self._screen = screen
        self._events = events
        self._interactive = interactive
        self._as_json = as_json
        self._live: Live | None = None
        self._shown: dict[str, tuple[str, str]] = {}
        self._address = ""

    @classmethod
    def for_command(cls, as_json: bool) -> Self:
        interactive = sys.stderr.isatty() and not as_json and not logs_json()
        return cls(sys.stderr, sys.stdout, interactive=interactive, as_json=as_json)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self._end_table()

    def broker_started(self, address: str) -> None:
        self._address = address
        self._tell(f"broker on {address}; starting the engine", {"event": "broker", "address": address})

    def tell_line(self, line: str) -> None:
        """About the brokers of a cluster."""
        if self._live is None:  # which would be drawn over
            self._tell(line, {"event": "cluster", "message": line})

    def broker_metrics_served(self, number: int, address: str) -> None:
        event = {"event": "metrics", "address": address, "broker": number}
        self._tell(f"metrics of broker {number} on http://{address}/metrics", event)

    def metrics_served(self, address: str) -> None:
        self._tell(f"metrics on http://{address}/metrics", {"event": "metrics", "address": address})

    def rest_served(self, url: str) -> None:
        self._tell(f"Connect worker: REST API on {url}", {"event": "connect", "rest": url})

    def ready(self, statuses: Callable[[], Sequence[Status]]) -> None:
        self._tell(f"engine ready; `penstock run FILE` uses it. {_HINT}", {"event": "ready"})
        self.show(statuses())
        if self._interactive:
            self._start_table(statuses)

    def show(self, statuses: Sequence[Status]) -> None:
        """Tells what changed since the last call: states, and why."""
        known = {str(status["name"]): status for status in statuses}
        for name, status in known.items():
            now = (str(status["state"]), str(status["reason"] or ""))
            if self._shown.get(name) != now:
                self._shown[name] = now
                reason = f": {status['reason']}" if status["reason"] else ""
                self._change(f"{name}: {status['state']}{reason}", {"event": "pipeline", "pipeline": status})
        for name in [name for name in self._shown if name not in known]:
            del self._shown[name]
            self._change(f"{name}: ended", {"event": "pipeline", "pipeline": {"name": name, "state": "STOPPED"}})

    def stopping(self, statuses: Sequence[Status]) -> None:
        self._end_table()
        running = [
            str(status["name"]) for status in statuses if status["state"] in ("RUNNING", "STARTING", "RESTARTING")
        ]
        after = f" after the current batch of {', '.join(running)}; ctrl-C again does not wait" if running else ""
        self._tell(f"stopping{after}", {"event": "stopping", "pipelines": running})

    def _change(self, text: str, event: Status) -> None:
        if not self._interactive:
            self._tell(text, event)

    def _tell(self, text: str, event: Status) -> None:
        if self._as_json:
            print(json.dumps({"at": round(time.time(), 3), **event}), file=self._events, flush=True)
        elif logs_json():
            say(text, "penstock.up")
        else:
            print(f"penstock: {text}", file=self._screen, flush=True)

    def _start_table(self, statuses: Callable[[], Sequence[Status]]) -> None:
        from rich.console import Console
        from rich.live import Live

        console = Console(file=self._screen)
        self._live = Live(
            console=console,
            refresh_per_second=_REFRESHES_PER_S,
            get_renderable=lambda: self._drawn(statuses(), console.width),
        )
        self._live.start()

    def _drawn(self, statuses: Sequence[Status], width: int) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        if not statuses:
            parts: list[RenderableType] = [Text("no pipelines; start one: penstock run --detach FILE")]
        else:
            parts = [rich_table(statuses, with_notes=width >= _WIDTH_WITH_NOTES)]
        for status in statuses:
            if status["reason"]:
                style = "red" if status["state"] == "FAILED" else "yellow"
                parts.append(Text(f"{status['name']}: {status['reason']}", style=style))
            elif status["activity"] and width < _WIDTH_WITH_NOTES:
                parts.append(Text(f"{status['name']}: {status['activity']}"))
        parts.append(Text(f"broker on {self._address} · {_HINT}", style="dim"))
        return Group(*parts)

    def _end_table(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
