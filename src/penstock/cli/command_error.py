"""How a command fails: one line on stderr and an exit code."""

from __future__ import annotations

from penstock.core.exit_codes import ExitCode


class CommandError(Exception):
    """main.py prints `str(error)` as one line on stderr."""

    def __init__(self, message: str, exit_code: ExitCode = ExitCode.FAILURE) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def usage_error(message: str) -> CommandError:
    return CommandError(message, ExitCode.USAGE)
