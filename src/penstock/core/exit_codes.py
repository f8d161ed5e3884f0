"""What the exit code of a `penstock` process says, for scripts and for whoever started it.

docs/cli.md shows the same table.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    OK = 0
    FAILURE = 1  # refused or failed, and none of the others says it better
    USAGE = 2  # the command line cannot mean anything
    UNREACHABLE = 3  # no broker answered
    NOT_FOUND = 4  # no such topic, partition or offset
    BAD_CONFIGURATION = 10  # a broker setting, or the file it stands in
    CANNOT_LISTEN = 11  # the address is taken, not ours, or not allowed
    DATA_DIR_IN_USE = 12  # another broker has it
    DATA_DIR_UNUSABLE = 13  # it cannot be made, read, written or trusted
    INTERRUPTED = 130  # ctrl-C, as shells report it
    BROKEN_PIPE = 141  # the reader of our output went away, as shells report it
    TERMINATED = 143  # SIGTERM, as shells report it
