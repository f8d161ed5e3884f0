"""The brokers of a source or a sink, as its author declares them. `brokers.py` makes client settings of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class KafkaEndpoint:
    """`bootstrap_servers` is None where the pipeline's apply; client settings are the `options` named `kafka.*`."""

    bootstrap_servers: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
