"""A builder of Python source: indented lines, and the constants that they refer to by name.

The only module that executes generated source. The source is made from the definitions in this package, never from data
of a peer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class GeneratedSource:
    def __init__(self) -> None:
        self._lines: list[str] = []
        self._indentation = ""
        self._constants: dict[str, object] = {}

    def line(self, text: str) -> None:
        self._lines.append(self._indentation + text)

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        """A line that ends with a colon; lines added in the context are indented below it."""
        self.line(opening)
        before, self._indentation = self._indentation, self._indentation + " "
        yield
        self._indentation = before

    def constant(self, name: str, value: object) -> str:
        """The name of `value` in the source; numbered if another value already has the name."""
        unique, number = name, 1
        while unique in self._constants and self._constants[unique] is not value:
            number += 1
            unique = f"{name}_{number}"
        self._constants[unique] = value
        return unique

    def compile(self, function: str, title: str) -> Callable[..., Any]:
        """Executes the source and returns the function of that name. `title` is the file name in tracebacks."""
        namespace = dict(self._constants)
        exec(compile("\n".join(self._lines), f"<{title}>", "exec"), namespace)  # noqa: S102
        compiled: Callable[..., Any] = namespace[function]  # type: ignore[assignment]
        return compiled

    def __str__(self) -> str:
        return "\n".join(self._lines)
