"""The line of a program that made a call: where a pipeline that is built by calls has its mistakes."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Any, Final

from penstock.pipeline.declaration.spec_errors import Problem, key_text, may_be_shown
from penstock.pipeline.declaration.verdicts import KeyPath

_OURS: Final = os.path.dirname(__file__) + os.sep


@dataclass(frozen=True, slots=True)
class CallOrigin:
    """The line of a program that made a call."""

    file: str
    line: int

    def problem(self, path: KeyPath, message: str) -> Problem:
        return Problem(self.file, self.line, key_text(path), message)

    def problem_in_text(self, path: KeyPath, message: str, line: int, position: int) -> Problem:
        return self.problem(path, f"{message} (line {line}, position {position + 1} of the SQL)")

    def shown(self, path: KeyPath, value: Any) -> str | None:
        return str(value) if may_be_shown(path) else None


def caller() -> CallOrigin:
    """The innermost line outside the code of pipelines."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return CallOrigin(frame.f_code.co_filename, frame.f_lineno)
