"""Mistakes in the SQL of a pipeline that the engine was given, on their way to the command, which has the file.

The engine knows keys and places in their texts, the command knows where in the file those stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.pipeline.declaration.spec_errors import Problem, key_text
from penstock.pipeline.declaration.spec_file import FileOrigin
from penstock.pipeline.declaration.verdicts import KeyPath

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, slots=True)
class _Mistake(Problem):
    """`text_line` counts from 1, 0 if it is not inside a text."""

    path: KeyPath = ()
    text_line: int = 0
    text_position: int = 0


class NoFile:
    """The origin of a declaration that came without its file."""

    def problem(self, path: KeyPath, message: str) -> Problem:
        return _Mistake("", 0, key_text(path), message, path=path)

    def problem_in_text(self, path: KeyPath, message: str, line: int, position: int) -> Problem:
        return _Mistake("", 0, key_text(path), message, path=path, text_line=line, text_position=position)

    def shown(self, path: KeyPath, value: Any) -> str | None:
        return None


def mistakes_as_json(problems: Sequence[Problem]) -> list[dict[str, Any]]:
    """Problems that were found with the origin `NoFile`."""
    return [
        {"path": list(found.path), "message": found.message, "line": found.text_line, "position": found.text_position}
        for found in problems
        if isinstance(found, _Mistake)
    ]


def mistakes_in_file(mistakes: Sequence[dict[str, Any]], origin: FileOrigin) -> list[Problem]:
    """What `mistakes_as_json` wrote, where it stands in the file."""
    problems = []
    for mistake in mistakes:
        path, message, line = tuple(mistake["path"]), str(mistake["message"]), int(mistake["line"])
        if line:
            problems.append(origin.problem_in_text(path, message, line, int(mistake["position"])))
        else:
            problems.append(origin.problem(path, message))
    return problems
