"""Options that several commands share, and the parsing of option values: `NAME=VALUE`, delimiters with escapes.

Invariant: a value that does not parse is a usage error that names the option.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Final

import typer

from penstock.cli.command_error import usage_error
from penstock.monitoring.logs import LOG_FORMATS, configure_logs

BootstrapServer = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        "-b",
        envvar="PENSTOCK_BOOTSTRAP_SERVER",
        metavar="HOST:PORT,...",
        help="The brokers to connect to. Default: the embedded broker of ./.penstock/, started on demand.",
    ),
]
ClientProperties = Annotated[
    list[str] | None,
    typer.Option("-X", metavar="NAME=VALUE", help="A librdkafka client property; repeatable."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
MetricsAddress = Annotated[
    str | None,
    typer.Option("--metrics", metavar="HOST:PORT", help="Serve metrics for Prometheus on http://HOST:PORT/metrics."),
]
LogFormatOption = Annotated[
    str, typer.Option("--log-format", metavar="text|json", help="On stderr: lines for people, or a JSON object a line.")
]

_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", "0": "\0", "\\": "\\"}
_ESCAPE: Final = re.compile(rb"\\(?:x([0-9a-fA-F]{2})|(.)|$)", re.DOTALL)


def examples(*lines: str) -> str:
    """An epilog whose lines the help formatter does not wrap (because of `\\b`)."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def use_log_format(log_format: str) -> None:
    """For the whole process. Without JSON, commands print lines, and Python's own default applies to the log."""
    if log_format not in LOG_FORMATS:
        raise usage_error(f"--log-format '{log_format}': expected {' or '.join(LOG_FORMATS)}")
    if log_format == "json":
        configure_logs("json")


def parse_assignments(words: Iterable[str], option: str) -> dict[str, str]:
    """`["a=1", "b=x=y"]` -> `{"a": "1", "b": "x=y"}`; the last value of a name wins."""
    assignments = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.strip():
            raise usage_error(f"{option} {word}: expected NAME=VALUE")
        assignments[name.strip()] = value.strip()
    return assignments


def one_topic(argument: str | None, option: str | None) -> str:
    """The topic of a command that takes it as an argument or, like Kafka's tools, as `--topic`."""
    if argument is not None and option is not None and argument != option:
        raise usage_error(f"two topics given, '{argument}' and --topic '{option}'; use one")
    chosen = option if argument is None else argument
    if not chosen:
        raise usage_error("no topic given: use TOPIC or --topic TOPIC")
    return chosen


def unescape(text: str, option: str) -> bytes:
    """Replaces kcat's escapes `\\n \\r \\t \\0 \\\\ \\xHH` with their bytes; all other text becomes UTF-8."""

    def replace(escape: re.Match[bytes]) -> bytes:
        if escape[1] is not None:
            return bytes([int(escape[1], 16)])
        letter = (escape[2] or b"").decode("latin-1")
        if letter not in _ESCAPES:
            raise usage_error(f"{option} '{text}': unknown escape '\\{letter}' (known: \\n \\r \\t \\0 \\\\ \\xHH)")
        return _ESCAPES[letter].encode()

    return _ESCAPE.sub(replace, text.encode("utf-8", "surrogateescape"))


def parse_delimiter(text: str, option: str) -> bytes:
    unescaped = unescape(text, option)
    if not unescaped:
        raise usage_error(f"{option}: the delimiter is empty")
    return unescaped
