"""The `penstock` command: finds the command that was asked for, and turns every failure into one line and an exit code.

`penstock broker` and `penstock --version` take a short way past Typer: importing it, and what it brings, costs more
time than the broker itself needs to start. The other commands are in `app.py`.

Invariant: a user never sees a traceback for something that a user can cause.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from penstock.cli.command_error import CommandError
from penstock.core.exit_codes import ExitCode


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        exit_code = _run(words)
        # Here and not at exit, so that a reader that went away is noticed while we can still be quiet about it.
        sys.stdout.flush()
    except CommandError as failure:
        print(f"penstock: {' '.join(str(failure).split())}", file=sys.stderr)
        return failure.exit_code
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return ExitCode.BROKEN_PIPE
    except OSError as failure:
        # The machine's answer to what the user asked for: no space for the output, no permission, no such file.
        _discard_output()
        print(f"penstock: {failure.strerror or failure}{_place(failure)}", file=sys.stderr)
        return ExitCode.FAILURE
    return exit_code


def _discard_output() -> None:
    """The interpreter flushes stdout once more when it ends; that must not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _place(failure: OSError) -> str:
    return "" if failure.filename is None else f": {failure.filename}"


def _run(words: list[str]) -> int:
    if words[:1] == ["broker"]:
        from penstock.cli.broker import run_broker

        return run_broker(words[1:])
    if words[:1] == ["--version"]:
        from importlib.metadata import version

        print(f"penstock {version('penstock')}")
        return ExitCode.OK
    from penstock.cli.app import run_app

    return run_app(words or ["--help"])


if __name__ == "__main__":
    sys.exit(main())
