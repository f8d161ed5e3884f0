"""Sources and sinks of a program: `Topic`, `Table`, `Files`, `Console`, `PythonSink`.

Owns the Python spelling. Each becomes the same model as the same words in YAML, so that both are checked alike; a
keyword has the name of its key. The parameters are written out with their types, for editors and type checkers.

Invariant: the keywords of a class are the keys of its source and its sink (`tests/unit/pipeline/test_endpoints.py`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import Parameter, signature
from typing import Any, Literal, ParamSpec

from penstock.pipeline.call_origin import caller
from penstock.pipeline.declaration.redaction import redacted_url
from penstock.pipeline.declaration.spec_errors import InvalidPipeline, unknown_key

Option = str | bool | int | float
"""The value of a setting of Kafka or Spark."""

Names = str | Sequence[str]
"""One name, or several."""

RecordField = Literal["key", "topic", "partition", "offset", "timestamp", "headers"]

_P = ParamSpec("_P")


def check_keywords(call: Callable[_P, None]) -> Callable[_P, None]:
    """A keyword that the call does not have is told as a wrong key of a file is: with its line and the nearest key."""
    known = [name for name, parameter in signature(call).parameters.items() if parameter.kind is Parameter.KEYWORD_ONLY]
    accepted = {*signature(call).parameters}

    @wraps(call)
    def checked(*args: _P.args, **keywords: _P.kwargs) -> None:
        unknown = [key for key in keywords if key not in accepted]
        if unknown:
            origin = caller()
            raise InvalidPipeline([origin.problem((key,), unknown_key(key, known)) for key in unknown])
        call(*args, **keywords)

    return checked


class Endpoint:
    """A source or sink with its keys, which the models check when it is read or written."""

    function: Callable[..., Any] | None = None  # of a sink that is a function itself

    def __init__(self, keys: Mapping[str, Any]) -> None:
        self.keys = {key: value for key, value in keys.items() if value is not None}

    def __repr__(self) -> str:
        shown = {key: value for key, value in self.keys.items() if key != "options"}
        if "url" in shown:
            shown["url"] = redacted_url(str(shown["url"]))
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in shown.items())})"


class Topic(Endpoint):
    """One topic, or several to read. `Topic(pattern="orders-.*")` reads all that match."""

    @check_keywords
    def __init__(
        self,
        topic: Names | None = None,
        *,
        pattern: str | None = None,
        format: Literal["json", "csv", "text", "binary"] | None = None,
        bootstrap_servers: str | None = None,
        options: Mapping[str, Option] | None = None,
        # To read.
        schema: str | None = None,
        include: Sequence[RecordField] | None = None,
        tombstones: Literal["bad", "keep"] | None = None,
        starting_offsets: Literal["earliest", "latest"] | Mapping[str, Mapping[str, int]] | None = None,
        max_offsets_per_trigger: int | None = None,
        format_options: Mapping[str, Option] | None = None,
        timestamp: str | None = None,
        watermark: str | None = None,
        dedupe: Names | None = None,
        expect: Mapping[str, str] | None = None,
        # To write.
        key: Names | None = None,
        value: str | None = None,
        headers: Mapping[str, str] | None = None,
        partition: str | None = None,
        delete_when: str | None = None,
    ) -> None:
        super().__init__(
            {
                "topic": topic,
                "topic_pattern": pattern,
                "format": format,
                "bootstrap_servers": bootstrap_servers,
                "options": options,
                "schema": schema,
                "include": include,
                "tombstones": tombstones,
                "starting_offsets": starting_offsets,
                "max_offsets_per_trigger": max_offsets_per_trigger,
                "format_options": format_options,
                "timestamp": timestamp,
                "watermark": watermark,
                "dedupe": dedupe,
                "expect": expect,
                "key": key,
                "value": value,
                "headers": headers,
                "partition": partition,
                "delete_when": delete_when,
            }
        )


class Table(Endpoint):
    """A table of a database: to join with, or to write to."""

    @check_keywords
    def __init__(
        self,
        url: str,
        table: str,
        *,
        # To read.
        schema: str | None = None,
        # To write.
        key: Names | None = None,
        mode: Literal["append", "upsert"] | None = None,
        delete_when: str | None = None,
        schema_evolution: Literal["none", "add_columns"] | None = None,
    ) -> None:
        super().__init__(
            {
                "table": table,
                "url": url,
                "schema": schema,
                "key": key,
                "mode": mode,
                "delete_when": delete_when,
                "schema_evolution": schema_evolution,
            }
        )


class Files(Endpoint):
    """A directory of files."""

    @check_keywords
    def __init__(
        self,
        files: str | os.PathLike[str],
        *,
        format: Literal["json", "csv", "text", "binary", "parquet"] | None = None,
        options: Mapping[str, Option] | None = None,
        # To read.
        schema: str | None = None,
        static: bool | None = None,
        max_files_per_trigger: int | None = None,
        format_options: Mapping[str, Option] | None = None,
        timestamp: str | None = None,
        watermark: str | None = None,
        dedupe: Names | None = None,
        expect: Mapping[str, str] | None = None,
        # To write.
        partition_by: Names | None = None,
        schema_evolution: Literal["none", "add_columns"] | None = None,
    ) -> None:
        super().__init__(
            {
                "files": os.fspath(files) if isinstance(files, os.PathLike) else files,
                "format": format,
                "options": options,
                "schema": schema,
                "static": static,
                "max_files_per_trigger": max_files_per_trigger,
                "format_options": format_options,
                "timestamp": timestamp,
                "watermark": watermark,
                "dedupe": dedupe,
                "expect": expect,
                "partition_by": partition_by,
                "schema_evolution": schema_evolution,
            }
        )


class Console(Endpoint):
    """The terminal."""

    @check_keywords
    def __init__(self, *, rows: int | None = None) -> None:
        super().__init__({"console": True, "rows": rows})


class PythonSink(Endpoint):
    """A function that is called with every micro-batch: the function itself, or `"module:function"`.

    It must be importable: a later process, which has never seen this object, continues the pipeline.
    """

    @check_keywords
    def __init__(self, function: Callable[..., Any] | str, *, idempotent: bool | None = None) -> None:
        self.function = None if isinstance(function, str) else function
        reference = function if isinstance(function, str) else f"{function.__module__}:{function.__qualname__}"
        super().__init__({"python": reference, "idempotent": idempotent})
