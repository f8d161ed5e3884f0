"""The headers of a connector's dead letter, as Kafka Connect names them (KIP-298).

Connectors write them if `errors.deadletterqueue.context.headers.enable` is true; `penstock dead-letters` reads them.
The values are text.

Owns the names. It must not know how a letter is written.
"""

from __future__ import annotations

from typing import Final

PREFIX: Final = "__connect.errors."
TOPIC: Final = f"{PREFIX}topic"
PARTITION: Final = f"{PREFIX}partition"
OFFSET: Final = f"{PREFIX}offset"
CONNECTOR_NAME: Final = f"{PREFIX}connector.name"
TASK_ID: Final = f"{PREFIX}task.id"
STAGE: Final = f"{PREFIX}stage"
CLASS_NAME: Final = f"{PREFIX}class.name"
EXCEPTION_CLASS: Final = f"{PREFIX}exception.class.name"
EXCEPTION_MESSAGE: Final = f"{PREFIX}exception.message"
EXCEPTION_STACKTRACE: Final = f"{PREFIX}exception.stacktrace"

STAGES: Final = (
    "TASK_POLL",
    "TASK_PUT",
    "TRANSFORMATION",
    "KEY_CONVERTER",
    "VALUE_CONVERTER",
    "HEADER_CONVERTER",
    "KAFKA_PRODUCE",
    "KAFKA_CONSUME",
)
