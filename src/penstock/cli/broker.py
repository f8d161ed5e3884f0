"""`penstock broker`: one broker in the foreground, until ctrl-C or SIGTERM.

Parsed by argparse, and only here: Typer would double the time that a broker takes to start (see `main.py`). Owns the
command line and the lines that are printed; the broker itself is `penstock.broker.main`.

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
from typing import Final, NoReturn

from penstock.cli.command_error import CommandError, usage_error
from penstock.core.addresses import DEFAULT_DATA_DIR, DEFAULT_PORT, host_port_text, parse_host_port

_DIRECTORY_NAMES: Final = frozenset({"log.dir", "log.dirs"})
_EXAMPLES: Final = """\
examples:
  penstock broker                                    127.0.0.1:9092, data in ./.penstock/
  penstock broker --listen 127.0.0.1:0 --json        a free port, reported as JSON
  penstock broker --config server.properties --set num.partitions=3
  PENSTOCK_NUM_PARTITIONS=3 penstock broker          an environment variable for every setting

exit codes: 0 stopped as asked, 2 wrong usage, 10 bad configuration, 11 cannot listen, 12 data directory in use by
another broker, 13 data directory unusable, 1 anything else
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise usage_error(f"{message}; see `penstock broker --help`")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="penstock broker",
        description="Run a broker in the foreground. Ctrl-C or SIGTERM stops it cleanly.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="a Kafka server.properties file")
    parser.add_argument(
        "--listen", metavar="HOST:PORT", help="default 127.0.0.1:9092; port 0 takes a free one and prints it"
    )
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="default ./.penstock/; made if it is not there")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="assignments",
        metavar="NAME=VALUE",
        help="a broker setting by Kafka's name; may be repeated, and overrides the file",
    )
    parser.add_argument("--json", action="store_true", help="print the ready line as JSON")
    # For those who start brokers for others: see penstock.client.local_broker.process.
    parser.add_argument("--exit-with-stdin", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--exit-when-unused", type=Path, metavar="LOCK", help=argparse.SUPPRESS)
    return parser


def run_broker(arguments: Sequence[str]) -> int:
    """Returns the exit code when the broker has stopped."""
    options = _parser().parse_args(arguments)
    overrides = [*options.assignments, *_address(options.listen), *_directory(options.data_dir)]

    def on_ready(host: str, port: int) -> None:
        _print_ready(host, port, as_json=options.json)
        if options.exit_with_stdin:
            _stop_after(lambda: _await_end_of(sys.stdin.fileno()))
        if options.exit_when_unused is not None:
            _stop_after(lambda: _await_exclusive_lock(options.exit_when_unused))

    from penstock.broker.main import StartError, load_config, serve_forever

    try:
        configured = load_config(options.config, overrides).layers.static
        # Where Kafka would listen on every interface, a broker that somebody tries out listens to this machine alone.
        if "listeners" not in configured:
            overrides.append(f"listeners=PLAINTEXT://127.0.0.1:{DEFAULT_PORT}")
        if not configured.keys() & _DIRECTORY_NAMES:
            overrides.append(f"log.dirs={DEFAULT_DATA_DIR}")
        return serve_forever(load_config(options.config, overrides), on_ready)
    except StartError as failure:
        raise CommandError(str(failure), failure.exit_code) from failure


def _address(listen: str | None) -> list[str]:
    if listen is None:
        return []
    try:
        host, port = parse_host_port(listen)
    except ValueError as mistake:
        raise usage_error(f"--listen {mistake}") from mistake
    _outrank_environment({"listeners"})
    return [f"listeners=PLAINTEXT://{host_port_text(host, port)}"]


def _directory(data_dir: Path | None) -> list[str]:
    if data_dir is None:
        return []
    _outrank_environment(_DIRECTORY_NAMES)
    return [f"log.dirs={data_dir}"]


def _outrank_environment(names: Set[str]) -> None:
    """Variables override the file and `--set`; an address or a directory that was typed overrides even them."""
    for name in names:
        os.environ.pop("PENSTOCK_" + name.replace(".", "_").upper(), None)


def _print_ready(host: str, port: int, *, as_json: bool) -> None:
    # With --json, stdout is a program's and the person's line goes to stderr.
    print(f"penstock broker: listening on {host}:{port}", file=sys.stderr if as_json else sys.stdout, flush=True)
    if as_json:
        print(json.dumps({"event": "ready", "host": host, "port": port, "pid": os.getpid()}), flush=True)


def _stop_after(condition: Callable[[], None]) -> None:
    """Stops this process as SIGTERM would, once `condition` returns. A thread, because both conditions are blocking
    system calls that the kernel ends however their other side ended."""

    def wait_and_stop() -> None:
        condition()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait_and_stop, name="stop-condition", daemon=True).start()


def _await_end_of(descriptor: int) -> None:
    while os.read(descriptor, 4096):
        pass


def _await_exclusive_lock(lock_file: Path) -> None:
    import fcntl

    # Never closed: the lock is held until this process has ended, which is when the data directory is free again.
    descriptor = os.open(lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
