"""The pipeline files of `penstock up DIRECTORY`, as desired states.

A file that is no pipeline is an `InvalidFile` with its mistakes, each with its line; the others run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from penstock.pipeline.declaration.spec_errors import InvalidPipeline
from penstock.pipeline.declaration.spec_file import load_pipeline
from penstock.pipeline.engine.desired_state import DesiredState, InvalidFile
from penstock.pipeline.engine.packing import packed

_SUFFIXES: Final = (".yaml", ".yml")


def pipelines_in(
    directory: Path, settings: Mapping[str, object], working_dir: Path
) -> list[DesiredState | InvalidFile]:
    """By file name. `working_dir` is what relative paths in the files mean. Raises OSError."""
    files = sorted(path for path in directory.iterdir() if path.suffix in _SUFFIXES and path.is_file())
    found: list[DesiredState | InvalidFile] = []
    file_of: dict[str, Path] = {}
    for path in files:
        loaded = load_file(path, directory, settings, working_dir)
        first = file_of.get(loaded.name)
        if isinstance(loaded, DesiredState) and first is not None:
            problem = f"{path}: name: '{loaded.name}' is also the name in {first.name}; each pipeline has its own"
            loaded = InvalidFile(path.stem, str(path.resolve()), str(directory.resolve()), (problem,))
        elif isinstance(loaded, InvalidFile) and first is not None:  # and is called like one that is a pipeline
            loaded = replace(loaded, name=path.name)
        file_of.setdefault(loaded.name, path)
        found.append(loaded)
    return found


def load_file(
    path: Path, directory: Path, settings: Mapping[str, object], working_dir: Path
) -> DesiredState | InvalidFile:
    try:
        spec = load_pipeline(path).spec
    except InvalidPipeline as invalid:
        problems = tuple(map(str, invalid.problems))
        return InvalidFile(path.stem, str(path.resolve()), str(directory.resolve()), problems, int(invalid.exit_code))
    return DesiredState(
        name=spec.name,
        spec=packed(spec),
        settings=dict(settings),
        directory=str(working_dir),
        # The next engine may be started elsewhere.
        file=str(path.resolve()),
        pipelines_dir=str(directory.resolve()),
        guarantee=spec.guarantee,
    )
