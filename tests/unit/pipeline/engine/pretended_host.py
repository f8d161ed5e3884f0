"""A host that runs nothing: it does as a specification says, and waits where a pipeline would work."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any

from penstock.pipeline.engine.host import Outcome, Run, Work


class PretendedHost:
    """`until_stopped` runs until it is stopped; `failure` raises; `exit`, `away` and `events` are what they say."""

    def __init__(self) -> None:
        self.runs: list[Work] = []
        self.overlaps = 0
        self._executing: set[str] = set()
        self._changing = threading.Lock()

    def run(self, work: Work, run: Run) -> Outcome:
        with self._changing:
            self.runs.append(work)
            self.overlaps += work.name in self._executing
            self._executing.add(work.name)
        try:
            return self._pretend(work, run)
        finally:
            with self._changing:
                self._executing.discard(work.name)

    def _pretend(self, work: Work, run: Run) -> Outcome:
        spec = work.spec
        given = {"given": dict(spec), "settings": dict(work.settings), "directory": str(work.directory)}
        started = {"pipeline": work.name, "guarantee": "at_least_once", "checkpoint": "/cp", "run": "r"}
        run.report({"event": "started", **started, **given})
        for number in range(spec.get("events", 0)):
            tasks = {"batch": None, "tasks": 1, "tasks_done": 0}
            run.report({"event": "batch", "pipeline": work.name, "number": number, **tasks})
        if "failure" in spec:
            raise RuntimeError(spec["failure"])
        if len([each for each in self.runs if each.name == work.name]) <= spec.get("away", 0):
            return Outcome(3, "no broker answers", "PENSTOCK_BROKER_UNREACHABLE", may_return=True)
        if spec.get("until_stopped"):
            run.stop.wait()
            run.report({"event": "stopped", "pipeline": work.name})
        details = {"problems": spec["problems"]} if "problems" in spec else {}
        return Outcome(int(spec.get("exit", 0)), spec.get("message"), details=details)

    def check(self, work: Work) -> Mapping[str, Any]:
        return {"problems": work.spec.get("problems", []), "notes": [], "pid": os.getpid()}
