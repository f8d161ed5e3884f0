"""`NAME=VALUE` words of the command line."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.cli.command_error import usage_error


def parse_assignments(words: Iterable[str], option: str) -> dict[str, str]:
    """`["a=1", "b=x=y"]` -> `{"a": "1", "b": "x=y"}`; the last one of a name counts."""
    assignments = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.strip():
            raise usage_error(f"{option} {word}: expected NAME=VALUE")
        assignments[name.strip()] = value.strip()
    return assignments
