"""Which pipelines should run, as data on disk: written by commands and `penstock up`, carried out by the engine.

Owns the files, one for each pipeline. It knows neither what a specification says nor whether a pipeline runs.

Invariants:
- A file is whole or not there: it is written under another name, synced and renamed.
- A file is readable for its owner only: a specification holds the values of its environment variables, passwords too.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import quote

from penstock.core.exit_codes import ExitCode

Target = Literal["RUNNING", "STOPPED"]
TARGETS: Final[tuple[Target, ...]] = ("RUNNING", "STOPPED")
_SUFFIX: Final = ".json"


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredState:
    """A pipeline and whether it should run. `spec` and `settings` are the host's; the engine only carries them."""

    name: str
    spec: Mapping[str, Any] = field(repr=False)
    settings: Mapping[str, Any] = field(default_factory=dict)
    directory: str  # what relative paths mean
    target: Target = "RUNNING"
    file: str | None = None  # the pipeline file that it was read from
    pipelines_dir: str | None = None  # the directory of `penstock up` that the file belongs to
    guarantee: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> DesiredState:
        """Raises ValueError for what is none. Fields of a newer version are ignored."""
        known = {each.name: value[each.name] for each in fields(cls) if each.name in value}
        try:
            state = cls(**known)
        except TypeError as missing:
            raise ValueError(f"not a desired state: {missing}") from None
        texts = (state.name, state.directory, state.guarantee, state.file or "", state.pipelines_dir or "")
        maps = (state.spec, state.settings)
        if (
            not all(isinstance(text, str) for text in texts)
            or not all(isinstance(each, Mapping) for each in maps)
            or state.target not in TARGETS
        ):
            raise ValueError("not a desired state: a field has another type")
        return state


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file that is no desired state: nothing of ours left it so."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class InvalidFile:
    """A file of the pipeline directory that is no pipeline. `problems` are lines with file, line, key and remedy."""

    name: str
    file: str
    pipelines_dir: str
    problems: tuple[str, ...]
    exit_code: int = int(ExitCode.INVALID_PIPELINE)


class DesiredStates:
    """The desired states of a directory. Whoever changes them holds the engine's lock."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def load(self) -> tuple[list[DesiredState], list[Unreadable]]:
        """All of them, by name."""
        states, unreadable = [], []
        for path in sorted(self._directory.glob(f"*{_SUFFIX}")):
            try:
                states.append(DesiredState.of_json(json.loads(path.read_bytes())))
            except (OSError, ValueError) as failure:
                unreadable.append(Unreadable(path.name.removesuffix(_SUFFIX), f"{path}: {failure}"))
        return sorted(states, key=lambda state: state.name), unreadable

    def get(self, name: str) -> DesiredState | None:
        return next((state for state in self.load()[0] if state.name == name), None)

    def put(self, state: DesiredState) -> None:
        """Returns when it is durable."""
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._path(state.name)
        waiting = path.with_name(f".{path.name}.new")
        descriptor = os.open(waiting, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(state.as_json(), file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        waiting.replace(path)
        self._sync_directory()

    def delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._path(name).unlink()
            self._sync_directory()

    def _path(self, name: str) -> Path:
        return self._directory / f"{quote(name, safe='')}{_SUFFIX}"

    def _sync_directory(self) -> None:
        descriptor = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
