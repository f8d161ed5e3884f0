"""`penstock logs NAME`: what happened to a pipeline. It reads the log from disk, so it needs no engine."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer

from penstock.cli.engine import DEFAULT, DataDir, require_known, statuses
from penstock.cli.options import AsJson, examples
from penstock.cli.pipelines import Name

EPILOG: Final = examples(
    "penstock logs revenue",
    "penstock logs -f revenue                        until ctrl-C",
    "penstock logs -n 20 --json revenue              the last 20 events",
)


def logs(
    name: Name,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new events until ctrl-C.")] = False,
    lines: Annotated[int | None, typer.Option("--lines", "-n", min=0, metavar="N", help="The last N events.")] = None,
    data_dir: DataDir = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Show what happened to a pipeline."""
    from penstock.pipeline.engine.event_log import LogReader, log_path
    from penstock.pipeline.engine.layout import logs_dir

    path = log_path(logs_dir(data_dir), name)
    if not path.exists():
        require_known(name, statuses(data_dir))
    reader = LogReader(path)
    for event in reader.history(lines):
        _print(event, as_json)
    sys.stdout.flush()
    for event in reader.follow() if follow else ():
        _print(event, as_json)
        sys.stdout.flush()


def _print(event: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(event))
        return
    from penstock.pipeline.live_view import told

    text = told(event)
    if text is not None:
        at = datetime.fromtimestamp(float(event.get("at", 0)), UTC)
        print(f"{at:%Y-%m-%dT%H:%M:%S}Z {text}")
