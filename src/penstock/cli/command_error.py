"""The one way a command fails: a line for the person, an exit code for the script."""

from __future__ import annotations

from penstock.core.exit_codes import ExitCode


class CommandError(Exception):
    """`str(error)` is printed as it is, as one line, on stderr."""

    def __init__(self, message: str, exit_code: ExitCode = ExitCode.FAILURE) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def usage_error(message: str) -> CommandError:
    return CommandError(message, ExitCode.USAGE)
