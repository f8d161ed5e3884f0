"""Runs the pipelines that should run, and says what each of them is doing. The name is Kafka Connect's.

Owns the pipelines of one engine: which of them execute, in which thread, for whom, and their status. What should run is
in `DesiredStates`; how a pipeline runs is the `Host`'s matter. It knows no sockets and no Spark.

A pipeline is kept (it has a desired state, belongs to no connection, and runs again with the next engine) or attached
(a command asked for it and gets its events; it ends with that command).

Invariants:
- A name executes once. A later execution waits until the one before has ended.
- An attached run takes over from an attached run, and a kept pipeline takes over from both; an attached run never takes
  over from a kept pipeline that executes.
- A desired state is durable before it is carried out.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from penstock.core.error_table import ALREADY_RUNNING
from penstock.core.exit_codes import ExitCode
from penstock.pipeline.engine.desired_state import DesiredState, DesiredStates, InvalidFile, Unreadable
from penstock.pipeline.engine.event_log import EventLog, log_path
from penstock.pipeline.engine.execution import Execution, Hosted
from penstock.pipeline.engine.host import Host, Outcome, Run, Work
from penstock.pipeline.run_settings import Event, ignore
from penstock.pipeline.status import PipelineStatus

STOP_TIMEOUT_S: Final = 180.0  # longer than a supervisor waits for a batch
_LONGEST_PAUSE_S: Final = 30.0
_TAKEN_OVER: Final = Outcome(
    int(ExitCode.FENCED), "another run of this pipeline has taken over in the engine; this one stops"
)


class UnknownPipeline(LookupError):
    """The engine knows no pipeline of that name."""


class Refused(RuntimeError):
    """The text is one line that says why and what to do."""

    def __init__(self, message: str, exit_code: ExitCode, condition: str | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.condition = condition


LoadFile = Callable[[str, str], "DesiredState | InvalidFile"]
"""Reads a pipeline file again: the file and its pipeline directory."""


class Herder:
    """Any thread may call any method."""

    def __init__(
        self,
        host: Host,
        states: DesiredStates,
        logs: Path,
        load_file: LoadFile | None = None,
        *,
        first_pause_s: float = 1.0,
        on_event: Callable[[Event], None] = ignore,
    ) -> None:
        """`on_event` hears all events of all pipelines, from any thread."""
        self._host = host
        self._first_pause_s = first_pause_s
        self._on_event = on_event
        self._states = states
        self._logs = logs
        self._load_file = load_file
        self._pipelines: dict[str, Hosted] = {}
        self._changing = threading.RLock()
        self._is_closed = False

    # What should run

    def start_desired(self) -> None:
        """Carries out what is on disk: for an engine that starts."""
        states, unreadable = self._states.load()
        with self._changing:
            for state in states:
                if state.name not in self._pipelines:
                    self._carry_out(state)
            for file in unreadable:
                self._show_unreadable(file)

    def put(self, state: DesiredState) -> dict[str, Any]:
        """Creates a kept pipeline, or replaces one by a new specification. Returns its status."""
        with self._changing:
            self._require_open()
            self._states.put(state)
            self._carry_out(state)
            return self._shown(state.name)

    def adopt_directory(self, pipelines_dir: str, found: Iterable[DesiredState | InvalidFile]) -> None:
        """The pipelines of `penstock up DIRECTORY`. One that was stopped stays so; one whose file is gone is forgotten.

        Called before `start_desired`, which starts them.
        """
        before = {state.name: state for state in self._states.load()[0]}
        by_file = {state.file: state.name for state in before.values()}
        names = set()
        with self._changing:
            for each in found:
                if isinstance(each, InvalidFile):
                    name = by_file.get(each.file, each.name)
                    names.add(name)
                    self._show_invalid(replace(each, name=name))
                    continue
                names.add(each.name)
                known = before.get(each.name)
                state = replace(each, target=known.target) if known is not None else each
                if state != known:
                    self._states.put(state)
            for name, state in before.items():
                if state.pipelines_dir == pipelines_dir and name not in names:
                    self._states.delete(name)

    def stop(self, name: str, timeout_s: float = STOP_TIMEOUT_S) -> dict[str, Any]:
        """It stays stopped, also with the next engine, until `restart`. Waits for its end. Raises UnknownPipeline."""
        with self._changing:
            pipeline = self._known(name)
            if pipeline.desired is not None:
                pipeline.desired = replace(pipeline.desired, target="STOPPED")
                self._states.put(pipeline.desired)
            execution = pipeline.execution
            if execution is not None:
                execution.stop.set()
            if not pipeline.is_executing and pipeline.desired is not None:
                pipeline.status.apply({"event": "stopped", "pipeline": name})
            shown = self._shown(name)
        if execution is None:
            return shown
        if not execution.ended.wait(timeout_s):
            raise Refused(
                f"pipeline '{name}' still finishes its batch after {timeout_s:.0f} s; it stops when that is done",
                ExitCode.FAILURE,
            )
        with self._changing:
            return self._shown(name) if name in self._pipelines else {**shown, "state": "STOPPED"}

    def restart(self, name: str) -> dict[str, Any]:
        """Finishes its batch and starts it again; starts one that stopped or failed. Files of the pipeline directory
        are read again. Raises UnknownPipeline, Refused."""
        with self._changing:
            self._require_open()
            pipeline = self._known(name)
            file = pipeline.invalid or pipeline.desired
            if file is None:
                assert pipeline.execution is not None
                raise Refused(
                    f"pipeline '{name}' belongs to the command with pid {pipeline.execution.pid}; stop it with"
                    f" `penstock stop {name}` and start it there",
                    ExitCode.FAILURE,
                )
            state: DesiredState | InvalidFile | None = pipeline.desired
            if file.file and file.pipelines_dir and self._load_file is not None:
                state = self._load_file(file.file, file.pipelines_dir)
                if state.name != name and isinstance(state, DesiredState):
                    self._rename(name, state)
            if isinstance(state, InvalidFile):
                self._show_invalid(replace(state, name=name))
                return self._shown(name)
            assert state is not None
            state = replace(state, target="RUNNING")
            self._states.put(state)
            self._carry_out(state)
            return self._shown(state.name)

    def delete(self, name: str) -> dict[str, Any]:
        """Stops it and forgets its desired state. Its checkpoint and its log stay."""
        shown = self.stop(name)
        with self._changing:
            self._states.delete(name)
            self._pipelines.pop(name, None)
        return shown

    # What runs for a command

    def attach(self, work: Work, listen: Callable[[Event], None], pid: int, guarantee: str = "") -> Execution:
        """Runs it for a command, which stops it by `Execution.stop`. Raises Refused."""
        with self._changing:
            self._require_open()
            pipeline = self._pipelines.get(work.name)
            if pipeline is not None and pipeline.is_executing:
                assert pipeline.execution is not None
                if not pipeline.execution.is_attached:
                    raise Refused(_runs_already(work.name), ExitCode.FENCED, ALREADY_RUNNING)
                pipeline.execution.is_taken_over = True
            if pipeline is None:
                pipeline = self._pipelines[work.name] = self._new(work.name, guarantee)
            elif pipeline.kept_status is None:
                pipeline.kept_status = pipeline.status
                pipeline.status = PipelineStatus(work.name, guarantee=guarantee)
            return self._execute(pipeline, Execution(work, listen, pipeline.execution, is_attached=True, pid=pid))

    # What is seen

    def statuses(self) -> list[dict[str, Any]]:
        with self._changing:
            return [self._shown(name) for name in sorted(self._pipelines)]

    def status(self, name: str) -> dict[str, Any]:
        """Raises UnknownPipeline."""
        with self._changing:
            self._known(name)
            return self._shown(name)

    def close(self, timeout_s: float = STOP_TIMEOUT_S) -> bool:
        """Stops every execution and waits; desired states stay as they are. False: not all had ended in time."""
        with self._changing:
            self._is_closed = True
            executions = [each.execution for each in self._pipelines.values() if each.execution is not None]
        for execution in executions:
            execution.stop.set()
        deadline = time.monotonic() + timeout_s
        ended = [execution.ended.wait(max(0.0, deadline - time.monotonic())) for execution in executions]
        return all(ended)

    # The rest is for threads that hold `_changing`

    def _carry_out(self, state: DesiredState) -> None:
        pipeline = self._pipelines.get(state.name)
        if pipeline is None:
            pipeline = self._pipelines[state.name] = self._new(state.name, state.guarantee)
        if pipeline.kept_status is not None:
            pipeline.status, pipeline.kept_status = pipeline.kept_status, None
        pipeline.status.guarantee = state.guarantee
        pipeline.desired, pipeline.invalid = state, None
        if state.target == "STOPPED":
            pipeline.status.apply({"event": "stopped", "pipeline": state.name})
            return
        if pipeline.execution is not None and pipeline.is_executing:
            pipeline.execution.is_taken_over = pipeline.execution.is_attached
        work = Work(state.name, state.spec, state.settings, Path(state.directory), state.file)
        self._execute(pipeline, Execution(work, lambda _event: None, pipeline.execution))

    def _execute(self, pipeline: Hosted, execution: Execution) -> Execution:
        if execution.predecessor is not None:
            execution.predecessor.stop.set()
        pipeline.execution = execution
        name = execution.work.name
        self._apply(pipeline, execution, {"event": "starting", "pipeline": name})
        threading.Thread(target=self._run, args=(pipeline, execution), daemon=True, name=f"pipeline {name}").start()
        return execution

    def _new(self, name: str, guarantee: str) -> Hosted:
        return Hosted(PipelineStatus(name, guarantee=guarantee), EventLog(log_path(self._logs, name)))

    def _known(self, name: str) -> Hosted:
        pipeline = self._pipelines.get(name)
        if pipeline is None:
            raise UnknownPipeline(name)
        return pipeline

    def _require_open(self) -> None:
        if self._is_closed:
            raise Refused("the engine is stopping", ExitCode.ENGINE_LOST)

    def _shown(self, name: str) -> dict[str, Any]:
        pipeline = self._pipelines[name]
        execution = pipeline.execution if pipeline.is_executing else None
        source = pipeline.desired or pipeline.invalid
        return {
            **pipeline.status.as_json(),
            "target": pipeline.desired.target if pipeline.desired is not None else None,
            "attached": execution is not None and execution.is_attached,
            "pid": execution.pid if execution is not None and execution.is_attached else None,
            "stopping": execution is not None and execution.stop.is_set(),
            "file": source.file if source is not None else None,
        }

    def _rename(self, name: str, state: DesiredState) -> None:
        """Its file now says another name."""
        if state.name in self._pipelines:
            raise Refused(f"{state.file} now names pipeline '{state.name}', which exists already", ExitCode.FAILURE)
        pipeline = self._pipelines.pop(name)
        if pipeline.execution is not None:
            pipeline.execution.stop.set()
        self._states.delete(name)

    def _show_invalid(self, file: InvalidFile) -> None:
        pipeline = self._pipelines.get(file.name)
        if pipeline is None:
            pipeline = self._pipelines[file.name] = self._new(file.name, "")
        if pipeline.execution is not None:
            pipeline.execution.stop.set()
        pipeline.invalid = file
        event = {
            "event": "failed",
            "pipeline": file.name,
            "reason": file.problems[0],
            "problems": list(file.problems),
            "exit_code": file.exit_code,
        }
        pipeline.status.apply(event)
        pipeline.log.append(event)

    def _show_unreadable(self, file: Unreadable) -> None:
        pipeline = self._pipelines.setdefault(file.name, self._new(file.name, ""))
        event = {"event": "failed", "pipeline": file.name, "reason": file.reason, "exit_code": int(ExitCode.FAILURE)}
        pipeline.status.apply(event)
        pipeline.log.append(event)

    def _apply(self, pipeline: Hosted, execution: Execution, event: Event) -> None:
        """Of an execution that a later one has replaced, only its listener wants to know; and one whose file has
        become invalid stays failed while it ends."""
        with self._changing:
            if pipeline.execution is execution and (pipeline.invalid is None or execution.is_attached):
                pipeline.status.apply(event)
        pipeline.log.append(event)
        self._on_event(event)
        execution.listen(event)

    # The thread of an execution

    def _run(self, pipeline: Hosted, execution: Execution) -> None:
        if execution.predecessor is not None:
            execution.predecessor.ended.wait()
            execution.predecessor = None
        outcome = Outcome()
        pause_s = self._first_pause_s
        try:
            while not execution.stop.is_set():
                outcome = self._run_once(pipeline, execution)
                if execution.is_attached or not outcome.may_return:
                    break
                # What the pipeline needs was away when it started. Nobody waits for a kept pipeline to give up.
                event = {"event": "restarting", "pipeline": execution.work.name, "reason": outcome.message}
                self._apply(pipeline, execution, {**event, "condition": outcome.condition, "in_seconds": pause_s})
                outcome = Outcome()
                execution.stop.wait(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        finally:
            self._end(pipeline, execution, outcome)

    def _run_once(self, pipeline: Hosted, execution: Execution) -> Outcome:
        def report(event: Event) -> None:
            self._apply(pipeline, execution, event)

        try:
            return self._host.run(execution.work, Run(report, execution.stop))
        except Exception as failure:  # the boundary between pipelines: one that fails must not take the others along
            outcome = Outcome(int(ExitCode.FAILURE), str(failure) or type(failure).__name__)
            pipeline.log.append(
                {
                    "event": "exception",
                    "pipeline": execution.work.name,
                    "traceback": "".join(traceback.format_exception(failure)),
                }
            )
            return outcome

    def _end(self, pipeline: Hosted, execution: Execution, outcome: Outcome) -> None:
        if execution.is_taken_over and outcome.exit_code == ExitCode.OK:
            outcome = _TAKEN_OVER
        execution.outcome = outcome
        if outcome.exit_code != ExitCode.OK:
            self._apply(pipeline, execution, _failed(execution.work.name, outcome))
        with self._changing:
            if pipeline.execution is execution:
                is_unsaid = pipeline.status.state != "STOPPED" and pipeline.invalid is None
                if outcome.exit_code == ExitCode.OK and is_unsaid:
                    pipeline.status.apply({"event": "stopped", "pipeline": execution.work.name})
                if pipeline.kept_status is not None:
                    pipeline.status, pipeline.kept_status = pipeline.kept_status, None
                if pipeline.desired is None and pipeline.invalid is None:
                    self._pipelines.pop(execution.work.name, None)
            execution.ended.set()


def _failed(name: str, outcome: Outcome) -> Event:
    return {
        "event": "failed",
        "pipeline": name,
        "reason": outcome.message or "",
        "exit_code": outcome.exit_code,
        "condition": outcome.condition,
        **outcome.details,
    }


def _runs_already(name: str) -> str:
    return (
        f"pipeline '{name}' runs already: the engine keeps it running; follow it with `penstock logs -f {name}`, or"
        f" stop it first with `penstock stop {name}`"
    )
