"""The command's side of the engine: finds a living one, asks it, hands pipelines over, relays what it reports.

Imports nothing of Spark: with an engine beside it, `penstock run` never starts one.

Invariant: an attached run lasts as long as its connection, so a command that is killed takes its pipeline along. What
is put (`put_pipeline`) belongs to the engine.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from penstock.core.exit_codes import ExitCode
from penstock.pipeline.engine.desired_state import DesiredState
from penstock.pipeline.engine.host import Outcome
from penstock.pipeline.engine.layout import socket_path
from penstock.pipeline.engine.protocol import Lines, Message
from penstock.pipeline.run_settings import stopping_on_signals

_ANSWER_TIMEOUT_S: Final = 3.0


class EngineLost(RuntimeError):
    """The engine ended while it ran a pipeline of ours."""


class EngineRefused(RuntimeError):
    """The engine does not do what was asked. The text is one line for a person."""

    def __init__(self, message: str, exit_code: ExitCode) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def find_engine(data_dir: Path) -> int | None:
    """The process id of the engine of this directory, if one lives and answers."""
    try:
        answer = _ask(data_dir, {"do": "ping"}, _ANSWER_TIMEOUT_S)
        return int(answer["engine"]["pid"])
    except (OSError, ValueError, KeyError, TypeError, EngineLost, EngineRefused):
        return None


# Each raises OSError if there is no engine, EngineLost if it ends before it answers, and EngineRefused.


def list_pipelines(data_dir: Path) -> list[dict[str, Any]]:
    """The status of every pipeline that the engine knows."""
    pipelines: list[dict[str, Any]] = _ask(data_dir, {"do": "list"}, _ANSWER_TIMEOUT_S)["pipelines"]
    return pipelines


def pipeline_status(data_dir: Path, name: str) -> dict[str, Any]:
    return _pipeline(_ask(data_dir, {"do": "status", "name": name}, _ANSWER_TIMEOUT_S))


def put_pipeline(data_dir: Path, state: DesiredState) -> dict[str, Any]:
    """The engine keeps it running from now on. Returns its status when that is durable."""
    return _pipeline(_ask(data_dir, {"do": "put", "desired": state.as_json()}, None))


def stop_pipeline(data_dir: Path, name: str) -> dict[str, Any]:
    """Waits until it has ended."""
    return _pipeline(_ask(data_dir, {"do": "stop", "name": name}, None))


def restart_pipeline(data_dir: Path, name: str) -> dict[str, Any]:
    return _pipeline(_ask(data_dir, {"do": "restart", "name": name}, None))


def delete_pipeline(data_dir: Path, name: str) -> dict[str, Any]:
    """Waits until it has ended."""
    return _pipeline(_ask(data_dir, {"do": "delete", "name": name}, None))


def check_pipeline(data_dir: Path, name: str, spec: dict[str, Any], directory: Path) -> dict[str, Any]:
    """`problems` and `notes` that the engine's Spark finds."""
    work = {"name": name, "spec": spec, "settings": {}, "directory": str(directory)}
    found: dict[str, Any] = _ask(data_dir, {"do": "check", "work": work}, None)["found"]
    return found


class EngineRun:
    """A pipeline that the engine runs for us. Made by `submit`."""

    def __init__(self, connection: socket.socket) -> None:
        self._lines = Lines(connection)

    @classmethod
    def submit(
        cls, data_dir: Path, name: str, spec: dict[str, Any], settings: dict[str, Any], guarantee: str = ""
    ) -> EngineRun:
        """Hands the pipeline over. OSError: there is no engine, or it has just ended; nothing was started."""
        run = cls(_connect(data_dir, None))
        work = {"name": name, "spec": spec, "settings": settings, "directory": os.getcwd()}
        run._lines.send({"do": "run", "work": work, "guarantee": guarantee})
        return run

    def follow(self, on_event: Callable[[Message], None]) -> Outcome:
        """Relays events until the pipeline has ended. Raises EngineLost when the engine ends first."""
        try:
            for message in self._lines:
                if "event" in message:
                    on_event(message["event"])
                elif "exit" in message:
                    return Outcome(int(message["exit"]), message.get("message"), message.get("condition"))
        finally:
            self._lines.close()
        raise EngineLost("the engine that ran the pipeline has ended; run it again, it resumes from its last commit")

    def request_stop(self) -> None:
        """The engine finishes the batch; `follow` returns when it has. May be called from a signal handler."""
        with contextlib.suppress(OSError):
            self._lines.send({"do": "stop"})


def run_in_engine(
    data_dir: Path,
    name: str,
    spec: dict[str, Any],
    settings: dict[str, Any],
    on_event: Callable[[Message], None],
    guarantee: str = "",
) -> Outcome:
    """Submits and follows, stopping the pipeline on ctrl-C and SIGTERM. For the main thread of a command."""
    run = EngineRun.submit(data_dir, name, spec, settings, guarantee)
    try:
        with stopping_on_signals(run.request_stop) as request:
            outcome = run.follow(on_event)
    except EngineLost as lost:
        return Outcome(int(ExitCode.ENGINE_LOST), str(lost))
    if settings.get("once") and outcome.exit_code == ExitCode.OK:
        request.end_unfinished()
    return outcome


def _connect(data_dir: Path, timeout_s: float | None) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_s)
        connection.connect(socket_path(data_dir))
    except BaseException:
        connection.close()
        raise
    return connection


def _pipeline(answer: dict[str, Any]) -> dict[str, Any]:
    pipeline: dict[str, Any] = answer["pipeline"]
    return pipeline


def _ask(data_dir: Path, request: Message, timeout_s: float | None) -> dict[str, Any]:
    lines = Lines(_connect(data_dir, timeout_s))
    try:
        lines.send(request)
        for answer in lines:
            if "error" in answer:
                raise EngineRefused(str(answer["error"]), ExitCode(answer.get("exit", ExitCode.FAILURE)))
            return answer
    finally:
        lines.close()
    raise EngineLost("the engine ended before it answered")
