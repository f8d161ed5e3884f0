"""A pipeline from a YAML file, or the mistakes in it, each with its line.

Owns the file as the place of a declaration. `yaml_document.py` knows YAML, `spec.py` knows pipelines.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from penstock.pipeline.declaration.guarantee import refusals
from penstock.pipeline.declaration.spec import PipelineSpec
from penstock.pipeline.declaration.spec_errors import InvalidPipeline, Problem, explain, key_text, may_be_shown
from penstock.pipeline.declaration.verdicts import KeyPath
from penstock.pipeline.declaration.yaml_document import YamlDocument, YamlMistake, read_yaml

FILE_BYTES_MAX: Final = 4 * 1024 * 1024
# A shorter value is part of ordinary words, and no secret.
_SECRET_LENGTH_MIN: Final = 4


@dataclass(frozen=True, slots=True)
class FileOrigin:
    """Knows the line of every key of one file."""

    file: str
    document: YamlDocument = field(default_factory=YamlDocument)

    def problem(self, path: KeyPath, message: str) -> Problem:
        return Problem(self.file, self._line(path), key_text(path), self._masked(message))

    def problem_in_text(self, path: KeyPath, message: str, line: int, position: int) -> Problem:
        """A problem inside a text, at its `line` (from 1) and `position` (from 0)."""
        text = self.document.texts.get(self._known_text(path))
        if text is None:
            where = f"line {line}, position {position + 1} of the SQL"
            return Problem(self.file, self._line(path), key_text(path), f"{self._masked(message)} ({where})")
        return Problem(self.file, text.line + line - 1, key_text(path), self._masked(message), text.column + position)

    def placed(self, message: str) -> str:
        """A line of a pipeline that ran, behind the file and, where it begins with a key, the line of that key."""
        words = message.partition(":")[0]
        line = next((line for path, line in self.document.lines.items() if path and key_text(path) == words), 0)
        return str(Problem(self.file, line, "", self._masked(message)))

    def shown(self, path: KeyPath, value: Any) -> str | None:
        for length in range(len(path), 0, -1):
            if path[:length] in self.document.spelled:
                return self.document.spelled[path[:length]]
        return str(value) if may_be_shown(path) else None

    def _masked(self, message: str) -> str:
        """A message may come from Spark, or from a function, and repeat what a variable held."""
        for value, spelled in self.document.secrets.items():
            if len(value) >= _SECRET_LENGTH_MIN:
                message = message.replace(value, spelled)
        return message

    def _line(self, path: KeyPath) -> int:
        for length in range(len(path), -1, -1):
            line = self.document.lines.get(path[:length])
            if line is not None:
                return line
        return 0

    def _known_text(self, path: KeyPath) -> KeyPath:
        """The path of a step's SQL as the author spelled it: `transform`, `transform[0].sql` or `transform[0].NAME`."""
        if path in self.document.texts:
            return path
        if path[:1] == ("transform",):
            spelled = [known for known in self.document.texts if known[: len(path) - 1] == path[:-1]]
            if len(spelled) == 1:
                return spelled[0]
            if ("transform",) in self.document.texts:
                return ("transform",)
        return path


@dataclass(frozen=True, slots=True)
class PipelineFile:
    spec: PipelineSpec
    origin: FileOrigin

    @property
    def directory(self) -> Path:
        """Where the modules of its functions are looked for first."""
        return Path(self.origin.file).resolve().parent


def load_pipeline(path: str | os.PathLike[str], environment: Mapping[str, str] | None = None) -> PipelineFile:
    """Reads and checks a file. Raises InvalidPipeline with everything that is wrong with it."""
    file = os.fspath(path)
    return parse_pipeline(_text(file), file, environment)


def parse_pipeline(text: str, file: str, environment: Mapping[str, str] | None = None) -> PipelineFile:
    try:
        document = read_yaml(text, os.environ if environment is None else environment)
    except YamlMistake as mistake:
        problem = Problem(file, mistake.line, key_text(mistake.path), mistake.message, mistake.column)
        raise InvalidPipeline([problem]) from mistake
    origin = FileOrigin(file, document)
    if document.value is None:
        raise InvalidPipeline([Problem(file, 0, "", "is empty; a pipeline has at least name, source and sink")])
    if not isinstance(document.value, dict):
        raise InvalidPipeline([origin.problem((), "expected the keys of a pipeline, such as name, source and sink")])
    try:
        spec = PipelineSpec.model_validate(document.value)
    except ValidationError as invalid:
        raise InvalidPipeline(explain(invalid, origin)) from None
    problems = [origin.problem(refusal.path, refusal.reason) for refusal in refusals(spec)]
    if len(spec.all_sources) > 1 and not spec.transform and any(b.sink.rows_from is None for b in spec.branches):
        problems.append(origin.problem(("sources",), "several sources need a transform that makes one result of them"))
    if problems:
        raise InvalidPipeline(problems)
    return PipelineFile(spec, origin)


def _text(file: str) -> str:
    try:
        with open(file, "rb") as opened:
            data = opened.read(FILE_BYTES_MAX + 1)
    except OSError as failure:
        raise InvalidPipeline([Problem(file, 0, "", f"cannot be read: {failure.strerror}")]) from failure
    if len(data) > FILE_BYTES_MAX:
        raise InvalidPipeline([Problem(file, 0, "", f"is larger than {FILE_BYTES_MAX} bytes; is it a pipeline?")])
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as mistake:
        line = data.count(b"\n", 0, mistake.start) + 1
        raise InvalidPipeline([Problem(file, line, "", "is not UTF-8 text")]) from mistake
