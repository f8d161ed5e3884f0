"""Sources and sinks of a program: `Topic`, `Table`, `Files`, `Console`, `PythonSink`.

Owns the Python spelling. Each becomes the same model as the same words in YAML, so that both are checked alike; a
keyword has the name of its key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from penstock.pipeline.declaration.redaction import redacted_url


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

    def __init__(self, topic: str | list[str] | None = None, *, pattern: str | None = None, **keys: Any) -> None:
        super().__init__({"topic": topic, "topic_pattern": pattern, **keys})


class Table(Endpoint):
    """A table of a database: to join with, or to write to."""

    def __init__(self, url: str, table: str, **keys: Any) -> None:
        super().__init__({"table": table, "url": url, **keys})


class Files(Endpoint):
    """A directory of files."""

    def __init__(self, files: str, **keys: Any) -> None:
        super().__init__({"files": files, **keys})


class Console(Endpoint):
    """The terminal."""

    def __init__(self, **keys: Any) -> None:
        super().__init__({"console": True, **keys})


class PythonSink(Endpoint):
    """A function that is called with every micro-batch: the function itself, or `"module:function"`.

    It must be importable: a later process, which has never seen this object, continues the pipeline.
    """

    def __init__(self, function: Callable[..., Any] | str, **keys: Any) -> None:
        self.function = None if isinstance(function, str) else function
        reference = function if isinstance(function, str) else f"{function.__module__}:{function.__qualname__}"
        super().__init__({"python": reference, **keys})
