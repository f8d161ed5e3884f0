"""What the exit code of a `penstock` process says, for scripts and for the caller.

docs/cli.md shows the same table.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    OK = 0
    FAILURE = 1  # refused or failed, and none of the others says it better
    USAGE = 2  # the command line cannot mean anything
    UNREACHABLE = 3  # no broker, or no database, answered
    NOT_FOUND = 4  # no such topic, partition or offset
    BAD_CONFIGURATION = 10  # a broker setting, or the file it stands in
    CANNOT_LISTEN = 11  # the address is taken, not ours, or not allowed
    DATA_DIR_IN_USE = 12  # another broker has it
    DATA_DIR_UNUSABLE = 13  # it cannot be made, read, written or trusted
    INVALID_PIPELINE = 20  # a pipeline file or program says something that cannot be meant, or cannot be kept
    INVALID_SQL = 21  # the SQL of a pipeline does not parse, or names what is not there
    MISSING_REQUIREMENT = 22  # an extra of the package, or a Java, is not installed
    ACCESS_DENIED = 23  # a broker or a database refuses the user, the password or the operation
    SOURCE_LOST = 24  # a topic was deleted, or its records aged out before they were read
    SINK_REFUSED = 25  # a table, topic or directory does not fit what is to be written to it
    CHECKPOINT_MISMATCH = 26  # the checkpoint is another pipeline's, or of another shape of this one
    FENCED = 27  # another run of the same pipeline has taken over
    DISK_FULL = 28  # no space left under the checkpoint, the state or a local sink
    ENGINE_LOST = 29  # Spark, or the engine that hosts the pipeline, went away
    PIPELINE_FAILED = 30  # it ran and failed, and none of the above says it better
    NOT_WRITABLE = 31  # a directory or file of a sink, or the checkpoint, cannot be written
    INTERRUPTED = 130  # ctrl-C, as shells report it
    BROKEN_PIPE = 141  # the reader of our output went away, as shells report it
    TERMINATED = 143  # SIGTERM, as shells report it
