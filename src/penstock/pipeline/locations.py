"""Where a pipeline's files, databases and checkpoint are: relative paths, made absolute once.

A pipeline may run in an engine, and its tasks in processes, that were started elsewhere; a relative path means the
directory in which the command was given. Paths with a scheme (hdfs://, s3a://) are left alone.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, TypeVar

from pydantic import BaseModel

from penstock.core.addresses import DEFAULT_DATA_DIR
from penstock.pipeline.declaration.sink_spec import FileSink, TableSink
from penstock.pipeline.declaration.source_spec import AnySource, FileSource, TableSource
from penstock.pipeline.declaration.spec import PipelineHead, PipelineSpec

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_SQLITE: Final = "sqlite:///"

Model = TypeVar("Model", bound=BaseModel)


def absolute_path(path: str, directory: Path) -> str:
    return path if _SCHEME.match(path) else str((directory / path).absolute())


def absolute_url(url: str, directory: Path) -> str:
    """Only SQLite's names a file."""
    if not url.startswith(_SQLITE):
        return url
    return _SQLITE + str((directory / url.removeprefix(_SQLITE)).absolute())


def checkpoint_of(head: PipelineHead, directory: Path, given: str | None) -> str:
    """`given` is what the command says, which wins over the pipeline."""
    chosen = given or head.checkpoint or str(DEFAULT_DATA_DIR / "checkpoints" / head.name)
    return absolute_path(chosen, directory)


def located_source(source: AnySource, directory: Path) -> AnySource:
    if isinstance(source, FileSource):
        return _changed(source, files=absolute_path(source.files, directory))
    if isinstance(source, TableSource):
        return _changed(source, url=absolute_url(source.url, directory))
    return source


def located(spec: PipelineSpec, directory: Path) -> PipelineSpec:
    changes: dict[str, object] = {}
    if isinstance(spec.sink, FileSink):
        changes["sink"] = _changed(spec.sink, files=absolute_path(spec.sink.files, directory))
    elif isinstance(spec.sink, TableSink):
        changes["sink"] = _changed(spec.sink, url=absolute_url(spec.sink.url, directory))
    if spec.source is not None:
        changes["source"] = located_source(spec.source, directory)
    if spec.sources is not None:
        changes["sources"] = {name: located_source(source, directory) for name, source in spec.sources.items()}
    return _changed(spec, **changes)


def _changed(model: Model, **changes: object) -> Model:
    return model.model_copy(update=changes)
