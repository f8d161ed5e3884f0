"""`penstock connect`: runs a Connect worker in the foreground until ctrl-C or SIGTERM.

Owns the command line and the ready line; the worker itself is `penstock.connect.worker`. Without connector files the
worker is distributed, with them it is standalone, as Kafka's two scripts have it.

Invariant: stdout carries the ready line and nothing else, so that a program can wait for it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import typer

from penstock.cli.command_error import CommandError, usage_error
from penstock.cli.connection import connected
from penstock.cli.listen_address import parse_address
from penstock.cli.options import (
    AsJson,
    BootstrapServer,
    LogFormatOption,
    examples,
    parse_assignments,
    use_log_format,
)
from penstock.cli.signals import stop_on_signals
from penstock.core.addresses import host_port_text
from penstock.core.exit_codes import ExitCode
from penstock.core.properties import PropertiesError, parse_properties

REST_PORT: Final = 8083
REQUIREMENT: Final = "penstock connect needs more packages: pip install 'penstock[connect]'"
EPILOG: Final = (
    examples(
        "penstock connect                                    a worker with the embedded broker of ./.penstock/",
        "penstock connect worker.properties                  a distributed worker, as connect-distributed.sh",
        "penstock connect worker.properties orders.json      a standalone worker, as connect-standalone.sh",
        "penstock connect orders.json                        the same, with offsets in ./.penstock/connect.offsets",
        "penstock connect -b 127.0.0.1:9092 --set group.id=etl --listen 127.0.0.1:8083",
        "penstock connect --master spark://host:7077         connectors run on a Spark cluster",
    )
    + "\n\n\b\nctrl-C lets connectors finish their jobs; a second ctrl-C does not wait."
)


def connect(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[WORKER.properties] [CONNECTOR ...]",
            show_default=False,
            help="The worker's properties, then connectors as .properties or .json files.",
        ),
    ] = None,
    *,
    bootstrap_server: BootstrapServer = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A worker property; repeatable.")
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option("--listen", metavar="HOST:PORT", help="Where the REST API listens. Default: 127.0.0.1:8083."),
    ] = None,
    master: Annotated[
        str | None, typer.Option("--master", metavar="URL", help="A Spark cluster. Default: this machine.")
    ] = None,
    log_format: LogFormatOption = "text",
    as_json: AsJson = False,
) -> None:
    """Run a Connect worker: connectors, managed over Kafka Connect's REST API."""
    use_log_format(log_format)
    worker_file, connector_files = _split(files or [])
    given = (worker_file or {}) | parse_assignments(settings or (), "--set")
    if listen is not None:
        host, port = parse_address(listen, "--listen", REST_PORT)
        given["listeners"] = f"http://{host_port_text(host, port)}"
    try:
        from penstock.connect.config.definition import ConfigException
        from penstock.connect.connector import ConnectError
        from penstock.connect.herder.standalone import read_connector_file
        from penstock.connect.runtime.spark_start import worker_spark
        from penstock.connect.worker import DEFAULTS, STANDALONE_DEFAULTS, Worker
    except ModuleNotFoundError as missing:
        raise CommandError(REQUIREMENT, ExitCode.MISSING_REQUIREMENT) from missing
    try:
        with stop_on_signals() as stop, _servers(bootstrap_server, given) as client, worker_spark(master) as jobs:
            # A properties file is complete, as in Kafka Connect: what is missing there is a mistake.
            defaults = STANDALONE_DEFAULTS if connector_files else DEFAULTS
            properties = {**(defaults if worker_file is None else {}), **given, **client}
            with Worker(
                properties, jobs, connector_files=[read_connector_file(each) for each in connector_files]
            ) as worker:
                _print_ready(worker.url, as_json=as_json)
                stop.wait()
    except (ConfigException, ConnectError) as mistake:
        raise CommandError(str(mistake), ExitCode.BAD_CONFIGURATION) from mistake


def _split(files: list[Path]) -> tuple[dict[str, str] | None, list[Path]]:
    """The worker's properties, if there is such a file, and the files of connectors: those name a `connector.class`."""
    if not files or files[0].suffix == ".json":
        return None, files
    properties = _read(files[0])
    return (None, files) if "connector.class" in properties else (properties, files[1:])


def _read(path: Path) -> dict[str, str]:
    try:
        return {entry.key: entry.value for entry in parse_properties(path.read_text(encoding="utf-8"))}
    except PropertiesError as mistake:
        raise usage_error(f"{path}:{mistake.line_number}: {mistake.reason}") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise usage_error(f"{path}: {reason}") from None


@contextlib.contextmanager
def _servers(bootstrap_server: str | None, given: dict[str, str]) -> Iterator[dict[str, str]]:
    """Settings that the command line decides; a worker without brokers gets the embedded one."""
    if bootstrap_server is None and "bootstrap.servers" in given:
        yield {}
        return
    with connected(bootstrap_server, None) as client:
        yield {"bootstrap.servers": str(client["bootstrap.servers"])}


def _print_ready(url: str, *, as_json: bool) -> None:
    text = json.dumps({"event": "ready", "rest": url}) if as_json else f"Connect worker: REST API on {url}"
    print(text, flush=True)
