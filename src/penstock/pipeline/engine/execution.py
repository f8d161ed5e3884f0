"""What the herder knows of a pipeline, and of one run of it. The herder's lock guards both."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.pipeline.engine.desired_state import DesiredState, InvalidFile
from penstock.pipeline.engine.event_log import EventLog
from penstock.pipeline.engine.host import Outcome, Work
from penstock.pipeline.run_settings import Event
from penstock.pipeline.status import PipelineStatus


@dataclass(slots=True)
class Execution:
    """One run of a pipeline, from its start to its end."""

    work: Work
    listen: Callable[[Event], None]
    predecessor: Execution | None
    is_attached: bool = False
    pid: int = 0  # of the command that it is attached to; 0 where the system does not say
    stop: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)
    outcome: Outcome = field(default_factory=Outcome)
    is_taken_over: bool = False


@dataclass(slots=True)
class Hosted:
    """What the herder knows of a name. `desired` is None for one that is only attached, and for an invalid file."""

    status: PipelineStatus
    log: EventLog
    desired: DesiredState | None = None
    invalid: InvalidFile | None = None
    execution: Execution | None = None
    kept_status: PipelineStatus | None = None  # while an attached run shows its own

    @property
    def is_executing(self) -> bool:
        return self.execution is not None and not self.execution.ended.is_set()
