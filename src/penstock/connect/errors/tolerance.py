"""`errors.tolerance`, and the failure of a task that tolerates none. It crosses processes, and needs no Arrow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from penstock.connect.connector import ConnectError

if TYPE_CHECKING:
    from penstock.connect.errors.stage import StagedFailure

TOLERANCE: Final = "errors.tolerance"


def tolerates_failures(config: Mapping[str, str]) -> bool:
    return config.get(TOLERANCE, "none").strip() == "all"


class ToleranceExceeded(ConnectError):
    """A record failed, and `errors.tolerance` is none. `trace` is the text that Kafka Connect's status shows."""

    def __init__(self, failed: StagedFailure, place: str) -> None:
        failure = failed.failure
        self.cause = f"{failure.java_class}: {failure.message}"
        super().__init__(
            f"Tolerance exceeded in error handler: {self.cause} (stage {failed.stage.value}{place});"
            f" {TOLERANCE}=all skips such records"
        )

    @property
    def trace(self) -> str:
        return (
            "org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler\n"
            f"Caused by: {self.cause}\n"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (self.args[0], self.cause)


def _restored(message: str, cause: str) -> ToleranceExceeded:
    error = ToleranceExceeded.__new__(ToleranceExceeded)
    error.args, error.cause = (message,), cause
    return error
