"""A piece of Python source in the making: indented lines, and the constants that they refer to by name.

The one place of the protocol that executes source text. What is executed is made from the definitions in this package;
nothing that a peer sent ever becomes part of it.
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
        """A line that ends in a colon, and the lines below it."""
        self.line(opening)
        before, self._indentation = self._indentation, self._indentation + " "
        yield
        self._indentation = before

    def constant(self, name: str, value: object) -> str:
        """The name under which the source can refer to `value`; numbered where another value already has it."""
        unique, number = name, 1
        while unique in self._constants and self._constants[unique] is not value:
            number += 1
            unique = f"{name}_{number}"
        self._constants[unique] = value
        return unique

    def compile(self, function: str, title: str) -> Callable[..., Any]:
        """Executes the source and gives the function of that name. `title` is the file name in tracebacks."""
        namespace = dict(self._constants)
        exec(compile("\n".join(self._lines), f"<{title}>", "exec"), namespace)  # noqa: S102
        compiled: Callable[..., Any] = namespace[function]  # type: ignore[assignment]
        return compiled

    def __str__(self) -> str:
        return "\n".join(self._lines)
