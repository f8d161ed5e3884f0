"""What the commands about pipelines share: how the engine is asked, and what is shown when there is none.

Owns the words for an engine that is not there. The commands are in `pipelines.py`, `logs.py`, `run.py` and `up.py`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from penstock.cli.command_error import CommandError
from penstock.core.addresses import DEFAULT_DATA_DIR
from penstock.core.exit_codes import ExitCode

DataDir = Annotated[Path, typer.Option("--data-dir", metavar="DIR", help="The data directory of `penstock up`.")]
DEFAULT: Final = DEFAULT_DATA_DIR
_START_POLL_S: Final = 0.1
_START_PATIENCE_S: Final = 120.0


@contextlib.contextmanager
def engine_request(data_dir: Path) -> Iterator[None]:
    """Requests within the block fail with one line and an exit code."""
    from penstock.pipeline.engine.client import EngineLost, EngineRefused

    try:
        yield
    except EngineRefused as refused:
        raise CommandError(str(refused), refused.exit_code) from refused
    except EngineLost as lost:
        raise CommandError(str(lost), ExitCode.ENGINE_LOST) from lost
    except (FileNotFoundError, ConnectionRefusedError) as away:
        raise CommandError(
            f"no engine runs for {data_dir}/: start one in this directory with `penstock up`", ExitCode.ENGINE_LOST
        ) from away


def statuses(data_dir: Path) -> list[dict[str, Any]]:
    """Of the engine; without one, of what the next engine will run."""
    from penstock.pipeline.engine.client import EngineLost, list_pipelines

    try:
        return list_pipelines(data_dir)
    except (FileNotFoundError, ConnectionRefusedError, EngineLost):
        return _without_engine(data_dir)


def _without_engine(data_dir: Path) -> list[dict[str, Any]]:
    from penstock.pipeline.engine.desired_state import DesiredStates
    from penstock.pipeline.engine.layout import desired_states_dir
    from penstock.pipeline.status import PipelineStatus

    shown = []
    for state in DesiredStates(desired_states_dir(data_dir)).load()[0]:
        status = PipelineStatus(state.name, guarantee=state.guarantee)
        if state.target == "STOPPED":
            status.apply({"event": "stopped"})
        about = {"target": state.target, "attached": False, "pid": None, "stopping": False, "file": state.file}
        shown.append({**status.as_json(), **about})
    return shown


def require_known(name: str, pipelines: list[dict[str, Any]]) -> dict[str, Any]:
    from difflib import get_close_matches

    for pipeline in pipelines:
        if pipeline["name"] == name:
            return pipeline
    close = get_close_matches(name, [str(pipeline["name"]) for pipeline in pipelines], 1)
    hint = f"did you mean '{close[0]}'?" if close else "`penstock ps` lists all of them"
    raise CommandError(f"no pipeline is called '{name}'; {hint}", ExitCode.NOT_FOUND)


def wait_for_start(data_dir: Path, name: str) -> dict[str, Any]:
    """The status when it runs or has failed; the last one if that takes too long."""
    from penstock.pipeline.engine.client import pipeline_status

    deadline = time.monotonic() + _START_PATIENCE_S
    while True:
        status = pipeline_status(data_dir, name)
        if status["state"] not in ("UNASSIGNED", "STARTING") or time.monotonic() > deadline:
            return status
        time.sleep(_START_POLL_S)
