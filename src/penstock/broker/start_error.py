"""What keeps a broker from starting."""

from __future__ import annotations

from penstock.core.exit_codes import ExitCode


class StartError(Exception):
    """The broker cannot start. The message is one line: what, where, and what to do about it."""

    def __init__(self, exit_code: ExitCode, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code
