"""`penstock broker`: runs a broker in the foreground until ctrl-C or SIGTERM.

Owns the command line and the ready line; the broker itself is `penstock.broker.main`. argparse parses the options, here
only: Typer would double the start time of a broker (see `main.py`).

Invariant: stdout carries the ready line and nothing else, so that a program can wait for it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from penstock.cli.command_error import CommandError, usage_error
from penstock.cli.listen_address import METRICS_PORT, parse_address
from penstock.core.addresses import DEFAULT_DATA_DIR, DEFAULT_HOST, DEFAULT_PORT, host_port_text
from penstock.core.argument_parser import CommandParser
from penstock.monitoring.logs import LOG_FORMATS, configure_logs, logs_json, say

if TYPE_CHECKING:
    from penstock.broker.main import Ready

_DIRECTORY_NAMES: Final = frozenset({"log.dir", "log.dirs"})
_EXAMPLES: Final = """\
Examples:
  penstock broker                                    listen on 127.0.0.1:9092, keep data in ./.penstock/
  penstock broker --listen 127.0.0.1:0 --json        pick a free port and print it as JSON
  penstock broker --config server.properties --set num.partitions=3
  penstock broker --metrics 127.0.0.1:9404           serve metrics for Prometheus
  PENSTOCK_NUM_PARTITIONS=3 penstock broker          every setting has an environment variable

Exit codes: 0 stopped by ctrl-C or SIGTERM, 1 failure, 2 wrong usage, 10 invalid configuration, 11 cannot listen,
12 data directory in use by another broker, 13 data directory unusable, or moved or deleted while the broker ran.
"""


class _Parser(CommandParser):
    def error(self, message: str) -> NoReturn:
        raise usage_error(f"{message}; see `penstock broker --help`")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        "penstock broker",
        description="Run a broker in the foreground. Ctrl-C or SIGTERM stops it cleanly.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="A Kafka server.properties file.")
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="Where to listen; PORT alone means 127.0.0.1, port 0 a free one. Default: 127.0.0.1:9092.",
    )
    parser.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="Where to keep the data; created if missing. Default: ./.penstock/.",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="assignments",
        metavar="NAME=VALUE",
        help="A broker setting by Kafka's name; repeatable; overrides the file.",
    )
    parser.add_argument(
        "--metrics",
        metavar="HOST:PORT",
        help="Serve metrics for Prometheus on http://HOST:PORT/metrics. Default: off.",
    )
    parser.add_argument(
        "--log-format",
        choices=LOG_FORMATS,
        default="text",
        help="How to log to stderr: text, or one JSON object a line. Default: text.",
    )
    parser.add_argument("--json", action="store_true", help="Print the ready line as JSON.")
    # For programs that start a broker as a child process: see penstock.client.local_broker.process.
    parser.add_argument("--exit-with-stdin", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--exit-when-unused", type=Path, metavar="LOCK", help=argparse.SUPPRESS)
    parser.add_help_option()
    return parser


def run_broker(arguments: Sequence[str]) -> int:
    """Runs the broker until it stops, and returns the exit code."""
    options = _parser().parse_args(arguments)
    configure_logs(options.log_format)
    overrides = [*options.assignments, *_address(options.listen), *_directory(options.data_dir)]
    metrics = None if options.metrics is None else parse_address(options.metrics, "--metrics", METRICS_PORT)

    def on_ready(ready: Ready) -> None:
        _print_ready(ready, as_json=options.json)
        if options.exit_with_stdin:
            stop_with_stdin()
        if options.exit_when_unused is not None:
            _stop_after(lambda: _await_exclusive_lock(options.exit_when_unused))

    from penstock.broker.main import load_config, serve_forever
    from penstock.broker.start_error import StartError

    try:
        configured = load_config(options.config, overrides).layers.static
        # Kafka's default is every interface; a broker started without configuration listens on this machine only.
        if "listeners" not in configured:
            overrides.append(f"listeners=PLAINTEXT://{DEFAULT_HOST}:{DEFAULT_PORT}")
        if not configured.keys() & _DIRECTORY_NAMES:
            overrides.append(f"log.dirs={DEFAULT_DATA_DIR}")
        return serve_forever(
            load_config(options.config, overrides), on_ready, properties_file=options.config, metrics=metrics
        )
    except StartError as failure:
        raise CommandError(str(failure), failure.exit_code) from failure


def _address(listen: str | None) -> list[str]:
    if listen is None:
        return []
    host, port = parse_address(listen, "--listen")
    _outrank_environment({"listeners"})
    return [f"listeners=PLAINTEXT://{host_port_text(host, port)}"]


def _directory(data_dir: Path | None) -> list[str]:
    if data_dir is None:
        return []
    _outrank_environment(_DIRECTORY_NAMES)
    return [f"log.dirs={data_dir}"]


def _outrank_environment(names: Set[str]) -> None:
    """Environment variables override the file and `--set`; `--listen` and `--data-dir` override the variables."""
    for name in names:
        os.environ.pop("PENSTOCK_" + name.replace(".", "_").upper(), None)


def _print_ready(ready: Ready, *, as_json: bool) -> None:
    # With --json, a program reads stdout, and the line for a person goes to stderr.
    if not as_json:
        print(f"penstock broker: {ready}", flush=True)
        return
    if logs_json():
        say(str(ready), "penstock.broker")
    else:
        print(f"penstock broker: {ready}", file=sys.stderr, flush=True)
    event = {"event": "ready", "host": ready.host, "port": ready.port, "pid": os.getpid()}
    if ready.metrics is not None:
        event["metrics"] = ready.metrics
    print(json.dumps(event), flush=True)


def stop_with_stdin() -> None:
    """Stops this process like SIGTERM when its standard input ends, as it does with the process that started it."""
    _stop_after(lambda: _await_end_of(sys.stdin.fileno()))


def _stop_after(condition: Callable[[], None]) -> None:
    """Stops this process like SIGTERM once `condition` returns. It runs in a thread, because both conditions are
    blocking system calls, which the kernel ends even if the other process was killed."""

    def wait_and_stop() -> None:
        condition()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait_and_stop, name="stop-condition", daemon=True).start()


def _await_end_of(descriptor: int) -> None:
    while os.read(descriptor, 4096):
        pass


def _await_exclusive_lock(lock_file: Path) -> None:
    import fcntl

    # Never closed: the process holds the lock until it exits, because until then it uses the data directory.
    descriptor = os.open(lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
