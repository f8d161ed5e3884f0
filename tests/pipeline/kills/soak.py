"""Whole pipelines killed with -9, again and again: the sink holds what the source holds, as the guarantee says.

    python -m tests.pipeline.kills.soak --sink topic --kills 40 --seed 1

A pipeline file runs as `penstock run` does, fed all along by numbers of which every tenth is a dead letter, as is every
hundredth for which the transform fails: each start begins unguarded and restarts its query when it meets one. Drivers,
their JVMs, Python workers, the broker and the database's server are killed at named steps of a commit and at random
moments; a process that does not come back by itself is started again. Then the pipeline drains, and sink and dead
letters are compared with the source as multisets. The weaker guarantees run in the same harness, and have to show their
weakness.

A seed repeats the plan. Spark's threads and the feed are not under its control.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from penstock.core.exit_codes import ExitCode
from tests import crash_points
from tests.pipeline.kills.fault_plan import Fault, exactly_once_plan, weaker_plan
from tests.pipeline.kills.number_feed import NumberFeed, input_of
from tests.pipeline.kills.pipeline_process import PipelineProcess
from tests.pipeline.kills.report import Report, difference
from tests.pipeline.kills.scene import DEAD_LETTERS, SINK_NAMES, SOURCE, Scene, SinkName, scene
from tests.pipeline.kills.sink_contents import batches_of
from tests.pipeline.topic_contents import contents

ROWS_PER_SECOND: Final = 100
_PATIENCE_S: Final = 300.0
_DRAIN_S_MAX: Final = 300.0
_POLL_S: Final = 0.005
_LOG_TAIL: Final = 600
# Before Spark is there, its end looks like a Java that does not work.
_WITHOUT_JVM: Final = (ExitCode.ENGINE_LOST, ExitCode.MISSING_REQUIREMENT)


class Soak:
    """One pipeline, and the one who kills."""

    def __init__(self, made: Scene, report: Report) -> None:
        self._scene = made
        self._sink = made.sink
        self._chance = random.Random(report.seed)
        self.report = report
        self._starts: list[PipelineProcess] = []
        self._batches_at_last_fault = 0

    def run(self, plan: Sequence[Fault], progress: Callable[[Report, Fault], None] | None = None) -> Report:
        begun = time.monotonic()
        feed = NumberFeed(self._scene.broker.bootstrap_servers, SOURCE, per_second=ROWS_PER_SECOND)
        try:
            for fault in plan:
                self._strike(fault)
                if progress is not None:
                    progress(self.report, fault)
            feed.stop()
            self._drain()
            self._compare()
        finally:
            for process in self._starts:
                process.kill_all()
        self.report.seconds = time.monotonic() - begun
        return self.report

    # The pipeline

    def _running(self) -> PipelineProcess:
        """The pipeline, which is started if it does not run."""
        if not self._starts or not self._starts[-1].is_running:
            self._start()
        return self._starts[-1]

    def _start(self, *options: str) -> PipelineProcess:
        process = PipelineProcess(self._scene.pipeline, self._scene.crash_directory, self._scene.log, *options)
        self._starts.append(process)
        self._batches_at_last_fault = 0
        self.report.driver_starts += 1
        return process

    def _await_a_batch(self, process: PipelineProcess) -> None:
        """One that was reported since the last fault."""
        self._await(process, "a batch", lambda: process.batches > self._batches_at_last_fault)

    def _await(self, process: PipelineProcess, what: str, came: Callable[[], bool]) -> bool:
        deadline = time.monotonic() + _PATIENCE_S
        while not came():
            if not process.is_running:
                self._problem(f"the pipeline ended by itself, with {process.exit_code}, before {what}", process)
                return False
            if time.monotonic() > deadline:
                self._problem(f"{what} did not come in {_PATIENCE_S:.0f} s", process)
                process.kill_all()
                return False
            time.sleep(_POLL_S)
        return True

    def _problem(self, text: str, process: PipelineProcess) -> None:
        log = self._scene.log.read_text(errors="replace")[-_LOG_TAIL:]
        self.report.problems.append(f"after {self.report.kills.total()} kills: {text}; {process.last_words}; {log!r}")

    # Faults

    def _strike(self, fault: Fault) -> None:
        process = self._running()
        if not (fault.early and fault.ends_the_driver):
            self._await_a_batch(process)
        jvm = process.await_jvm(_PATIENCE_S)
        if jvm is None or not process.is_running:
            self._problem("there is nobody to kill", process)
            return
        self._batches_at_last_fault = process.batches
        if fault.step is None:
            time.sleep(fault.after_s)
            if fault.victim == "driver and JVM":
                with suppress(ProcessLookupError):
                    os.kill(process.driver, signal.SIGSTOP)
                self._sink.look_before_a_kill()
            # A worker that was chosen may have come to its own end.
            while process.is_running and not self._kill(self._victims(fault, process, jvm)):
                pass
        elif not self._kill_at(fault.step, self._victims(fault, process, jvm), process):
            return
        self.report.kills[fault.victim] += 1
        self._bring_back(fault, process)
        self._judge_moment(fault)

    def _victims(self, fault: Fault, process: PipelineProcess, jvm: int) -> list[int | str]:
        if fault.victim == "broker":
            return [*self._scene.broker_processes()]
        if fault.victim == "database":
            return [*self._scene.database_processes()]
        if fault.victim == "worker":
            if (
                fault.step is not None
                and self._sink.steps_are_in_workers
                and fault.step not in self._sink.steps_of_the_driver
            ):
                return [crash_points.SELF]
            self._await(process, "a worker", lambda: bool(process.workers()))
            workers: list[int | str] = [*process.workers()]
            return workers if fault.step is not None else self._chance.sample(workers, min(len(workers), 1))
        if fault.victim == "driver":
            return [process.driver]
        if fault.victim == "JVM":
            return [jvm]
        # A step may be reached by the driver itself, which therefore comes last; a worker does not survive it either.
        own = [crash_points.SELF] if self._sink.steps_are_in_workers and fault.step is not None else []
        return [jvm, process.driver, *own]

    def _kill(self, victims: Sequence[int | str]) -> bool:
        """Whether one of them was still there."""
        killed = False
        for victim in victims:
            with suppress(ProcessLookupError):
                os.kill(int(victim), signal.SIGKILL)
                killed = True
        return killed

    def _kill_at(self, step: str, victims: Sequence[int | str], process: PipelineProcess) -> bool:
        directory = self._scene.crash_directory
        crash_points.arm(directory, step, *victims)
        # It may have ended because it was killed there.
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            ended = not process.is_running
            if crash_points.was_hit(directory, step):
                self.report.steps[step] += 1
                return True
            if ended:
                break
            time.sleep(_POLL_S)
        (directory / step).unlink(missing_ok=True)
        self._problem(f"{step} was not reached", process)
        return False

    def _bring_back(self, fault: Fault, process: PipelineProcess) -> None:
        if fault.victim == "broker":
            self._scene.bring_broker_back(fault.down_s)
        elif fault.victim == "database":
            self._scene.bring_database_back(fault.down_s)
        elif fault.ends_the_driver:
            code = process.wait(_PATIENCE_S)
            if code not in (_WITHOUT_JVM if fault.victim == "JVM" else (-signal.SIGKILL,)):
                self._problem(f"its {fault.victim} was killed, and the driver ended with {code}", process)
                process.kill_all()

    def _judge_moment(self, fault: Fault) -> None:
        """Whether the kill landed between a write and its commit: the step says so, or what the dead have left."""
        if fault.step is not None:
            window = (*self._sink.before_its_commit, self._sink.weak_windows.get(self.report.guarantee))
            self.report.before_the_sinks_commit += fault.step in window
            self.report.before_sparks_commit += fault.step in self._sink.before_sparks_commit
        elif fault.victim == "driver and JVM" and self.report.guarantee == "exactly_once":
            begun, noted = batches_of(self._scene.checkpoint)
            if begun > noted:
                counts = self._sink.last_batch() >= begun
                self.report.before_sparks_commit += counts
                self.report.before_the_sinks_commit += not counts and self._sink.holds_uncommitted()

    # The end

    def _drain(self) -> None:
        """The feed is over; the pipeline takes what is left, and stops."""
        if self._starts and self._starts[-1].is_running:
            running = self._starts[-1]
            stopped = running.terminate()
            if stopped != ExitCode.OK:
                self._problem(f"the pipeline was asked to stop and ended with {stopped}", running)
        last = self._start("--once")
        code = last.wait(_DRAIN_S_MAX)
        if code != ExitCode.OK:
            self._problem(f"the last run ended with {code}", last)
        for process in self._starts:
            if process.await_orphans():
                self._problem("processes of a driver that has ended go on", process)

    def _compare(self) -> None:
        report, servers = self.report, self._scene.broker.bootstrap_servers
        source = input_of(servers, SOURCE)
        if max(source.good.values(), default=0) > 1:
            report.problems.append("the feed repeated numbers, and repeats of the pipeline could not be told from them")
        letters = Counter(record.value or b"" for record in contents(servers, DEAD_LETTERS))
        report.rows, report.letters = source.good.total(), source.bad.total()
        report.difference = difference(source.good, self._sink.rows())
        report.letters_difference = difference(source.bad, letters)
        report.query_restarts = sum(process.restarts for process in self._starts)
        report.batches = sum(process.batches for process in self._starts)


def soak(
    sink: SinkName,
    guarantee: str,
    *,
    kills: int,
    seed: int,
    directory: Path,
    progress: Callable[[Report, Fault], None] | None = None,
) -> Report:
    """One whole run with servers of its own; `directory` is empty."""
    with scene(directory, sink, guarantee) as made:
        if guarantee == "exactly_once":
            plan = exactly_once_plan(made.sink.steps, made.sink.servers, kills, seed)
        else:
            plan = weaker_plan(made.sink.weak_windows[guarantee], made.sink.servers, kills, seed)
        return Soak(made, Report(sink, guarantee, seed)).run(plan, progress)


def _show_progress(report: Report, fault: Fault) -> None:
    place = fault.step or "a random moment"
    so_far = f"{report.kills.total()} kills, {report.in_window} between write and commit"
    problems = f", {len(report.problems)} problems" if report.problems else ""
    print(f"{so_far}{problems}: {fault.victim} at {place}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill whole pipelines, and count what was lost and what came twice.")
    parser.add_argument("--sink", choices=(*SINK_NAMES, "all"), default="all", help="what is written")
    parser.add_argument("--kills", type=int, default=40, help="under exactly_once; of `all`, both databases share them")
    parser.add_argument("--weaker-kills", type=int, default=6, help="under each of the weaker guarantees")
    parser.add_argument("--seed", type=int, default=None, help="repeats the plan of a run (default: a new one)")
    options = parser.parse_args()
    # Whoever stops it wants its processes to end as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(ExitCode.TERMINATED))
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    good = True
    for sink in SINK_NAMES if options.sink == "all" else (options.sink,):
        is_half = options.sink == "all" and sink.startswith("table-")
        for guarantee, kills in (
            ("exactly_once", math.ceil(options.kills / 2) if is_half else options.kills),
            ("at_least_once", options.weaker_kills),
            ("at_most_once", options.weaker_kills),
        ):
            if not kills:
                continue
            with tempfile.TemporaryDirectory(prefix="penstock-kills-", ignore_cleanup_errors=True) as directory:
                report = soak(
                    sink, guarantee, kills=kills, seed=seed, directory=Path(directory), progress=_show_progress
                )
            good = good and report.holds
            print("\n".join(report.lines()), flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
