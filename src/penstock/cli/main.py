"""The `penstock` command: dispatches to a command, and turns every failure into one line and an exit code.

`penstock broker` and `penstock --version` bypass Typer: importing it takes longer than the broker needs to start. The
other commands are in `app.py`.

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
        # Here and not at interpreter exit, where a closed pipe could no longer be handled.
        sys.stdout.flush()
    except CommandError as failure:
        _say_failure(" ".join(str(failure).split()), failure)
        return failure.exit_code
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return ExitCode.BROKEN_PIPE
    except OSError as failure:
        # For example: no space left for the output, permission denied, no such file.
        _discard_output()
        _say_failure(f"{failure.strerror or failure}{_place(failure)}")
        return ExitCode.FAILURE
    return exit_code


def _say_failure(message: str, failure: CommandError | None = None) -> None:
    """One line on stderr; a JSON object if the command logs those."""
    from penstock.monitoring.logs import print_error

    print_error(message, code=None if failure is None else _condition(failure))


def _condition(failure: CommandError) -> str | None:
    """The condition of core/error_table.py, of the error behind the failure or of its exit code."""
    from penstock.core.error_table import CONDITION_BY_EXIT_CODE

    entry = getattr(failure.__cause__, "entry", None)
    return CONDITION_BY_EXIT_CODE.get(failure.exit_code) if entry is None else str(entry.condition)


def _discard_output() -> None:
    """The interpreter flushes stdout again at exit; that must not fail a second time."""
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
