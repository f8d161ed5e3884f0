"""`penstock ps`, `status`, `stop` and `restart`: the pipelines of a running engine, seen and steered.

Owns what these commands print. `ps`, `status` and `stop` also work while no engine runs: they show and change what the
next engine will do.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from penstock.cli.command_error import CommandError
from penstock.cli.engine import DEFAULT, DataDir, engine_request, require_known, statuses, wait_for_start
from penstock.cli.options import AsJson, examples
from penstock.core.exit_codes import ExitCode

Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="The pipeline's name.")]

PS_EPILOG: Final = (
    examples(
        "penstock ps",
        "penstock ps --json | jq '.[] | select(.state == \"FAILED\")'",
    )
    + "\n\n\b\nStates, as in Kafka Connect: UNASSIGNED (no engine), STARTING, RUNNING, RESTARTING, FAILED, STOPPED."
)
STATUS_EPILOG: Final = (
    examples("penstock status revenue", "penstock status --json revenue")
    + "\n\n\b\nExit codes: 0, or for a FAILED pipeline the code of its failure; 4 no such pipeline."
)
STOP_EPILOG: Final = examples(
    "penstock stop revenue                           until `penstock restart revenue`",
    "penstock stop --delete revenue                  the engine forgets it; its checkpoint stays",
)
RESTART_EPILOG: Final = examples(
    "penstock restart revenue                        also one that stopped or failed; its file is read again",
)


def ps(*, data_dir: DataDir = DEFAULT, as_json: AsJson = False) -> None:
    """List the pipelines of the engine."""
    found = statuses(data_dir)
    if as_json:
        print(json.dumps(found))
        return
    from penstock.cli.group_layout import table
    from penstock.cli.pipeline_table import COLUMNS, row

    print(table(COLUMNS, [row(status) for status in found]))


def status(name: Name, *, data_dir: DataDir = DEFAULT, as_json: AsJson = False) -> None:
    """Show one pipeline: state, throughput, lag by partition, what went wrong."""
    found = require_known(name, statuses(data_dir))
    _show(found, as_json)
    if found["state"] == "FAILED":
        raise typer.Exit(found["exit_code"] or ExitCode.FAILURE)


def stop(
    name: Name,
    *,
    delete: Annotated[bool, typer.Option("--delete", help="Also forget it. Its checkpoint and log stay.")] = False,
    data_dir: DataDir = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Let a pipeline finish its batch and stop it, until `restart`."""
    from penstock.pipeline.engine.client import delete_pipeline, stop_pipeline

    require_known(name, statuses(data_dir))
    try:
        with engine_request(data_dir):
            stopped = delete_pipeline(data_dir, name) if delete else stop_pipeline(data_dir, name)
    except CommandError as failure:
        if failure.exit_code != ExitCode.ENGINE_LOST:
            raise
        stopped = _stop_without_engine(data_dir, name, delete)
    if as_json:
        print(json.dumps(stopped))
    else:
        print(f"{name} is deleted" if delete else f"{name} is {stopped['state']}")


def restart(name: Name, *, data_dir: DataDir = DEFAULT, as_json: AsJson = False) -> None:
    """Start a pipeline again: one that runs, stopped or failed."""
    from penstock.pipeline.engine.client import restart_pipeline

    require_known(name, statuses(data_dir))
    with engine_request(data_dir):
        started = restart_pipeline(data_dir, name)
        found = wait_for_start(data_dir, started["name"])
    if as_json:
        print(json.dumps(found))
    elif found["state"] == "FAILED":
        _show(found, as_json=False)
    else:
        print(f"{found['name']} is {found['state']}")
    if found["state"] == "FAILED":
        raise typer.Exit(found["exit_code"] or ExitCode.FAILURE)


def _show(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(found))
        return
    from penstock.cli.pipeline_table import details

    for key, text in details(found):
        print(f"{key:<13} {text}".rstrip())


def _stop_without_engine(data_dir: Path, name: str, delete: bool) -> dict[str, Any]:
    """Changes what the next engine does."""
    from dataclasses import replace

    from penstock.pipeline.engine.desired_state import DesiredStates
    from penstock.pipeline.engine.layout import EngineInUse, EngineLock, desired_states_dir

    try:
        with EngineLock(data_dir):
            states = DesiredStates(desired_states_dir(data_dir))
            state = states.get(name)
            assert state is not None  # it was listed
            if delete:
                states.delete(name)
            else:
                states.put(replace(state, target="STOPPED"))
    except EngineInUse as used:
        raise CommandError(f"{used}, and is starting or stopping; try again", ExitCode.ENGINE_LOST) from used
    return {**require_known(name, statuses(data_dir))} if not delete else {"name": name, "state": "STOPPED"}
