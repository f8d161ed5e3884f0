"""One batch on its way into a log, and what waits for the high watermark."""

from __future__ import annotations

from typing import Protocol

from penstock.protocol.error_codes import BrokerError, ErrorCode


class Append:
    """One batch on its way into the log, and the outcome for its producer."""

    __slots__ = ("base_offset", "code", "duplicate", "end_offset", "log_append_time_ms", "message")

    def __init__(self, base_offset: int, end_offset: int, log_append_time_ms: int, duplicate: bool) -> None:
        self.base_offset = base_offset
        self.end_offset = end_offset
        self.log_append_time_ms = log_append_time_ms
        self.duplicate = duplicate
        self.code = ErrorCode.NONE
        self.message: str | None = None

    def fail(self, code: ErrorCode, message: str) -> None:
        self.code = code
        self.message = message

    @property
    def error(self) -> BrokerError | None:
        return BrokerError(self.code, self.message or "") if self.code else None


class Waiter(Protocol):
    """Waits for the high watermark to advance: a parked fetch, or a produce with acks=all."""

    def records_arrived(self, new_bytes: int) -> None:
        """More is readable; or the partition was deleted or changed its role, and has to be looked up again."""
        ...
