"""An argument parser without dependencies, whose help reads like that of the commands that Typer parses.

`penstock broker` and `penstock bench` use it: Typer would double the start time of a broker, and a benchmark is also
run without the command line.
"""

from __future__ import annotations

import argparse
from typing import Final

_WIDTH: Final = 100
_OPTION_WIDTH: Final = 32


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=_OPTION_WIDTH, width=_WIDTH)

    def add_usage(self, usage, actions, groups, prefix=None):  # type: ignore[no-untyped-def] # argparse's signature
        super().add_usage(usage, actions, groups, "Usage: " if prefix is None else prefix)

    def start_section(self, heading: str | None) -> None:
        super().start_section(None if heading is None else heading.capitalize())

    def add_text(self, text: str | None) -> None:
        if text is not None and text != argparse.SUPPRESS:
            text = "\n".join(f"  {line}".rstrip() for line in text.splitlines())
        super().add_text(text)


class CommandParser(argparse.ArgumentParser):
    """`description` is one sentence; `epilog` has `Examples:` and `Exit codes: ...`, as in the other commands."""

    def __init__(self, prog: str, *, description: str, epilog: str) -> None:
        super().__init__(
            prog=prog,
            usage=f"{prog} [OPTIONS]",
            description=description,
            epilog=epilog,
            formatter_class=_Formatter,
            allow_abbrev=False,
            add_help=False,
        )

    def add_help_option(self) -> None:
        """Last, as in the other commands; -h works as well."""
        self.add_argument("--help", action="help", help="Show this message and exit.")
        self.add_argument("-h", action="help", help=argparse.SUPPRESS)
