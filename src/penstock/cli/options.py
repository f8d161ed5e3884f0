"""Options that several commands share, so that they are spelled and explained once."""

from __future__ import annotations

from typing import Annotated

import typer

BootstrapServer = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        "-b",
        envvar="PENSTOCK_BOOTSTRAP_SERVER",
        metavar="HOST:PORT,...",
        help="The brokers to ask first. Without it: the embedded broker of ./.penstock/, started on demand.",
    ),
]
ClientProperties = Annotated[
    list[str] | None,
    typer.Option("-X", metavar="NAME=VALUE", help="A librdkafka client property; may be repeated."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON, for programs.")]


def examples(*lines: str) -> str:
    """An epilog whose lines stay as they are (`\\b` tells the help formatter not to wrap them)."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
