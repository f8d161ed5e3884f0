"""JSON as Kafka Connect's JsonConverter writes it without schemas: compact, UTF-8, in the order of the fields."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

KeyValue: TypeAlias = tuple[bytes, bytes | None]
"""A record of a compacted topic. None is a tombstone."""


def encode_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


def decode_json(content: bytes | None) -> Any:
    """None for null, and for what is no JSON: a reader skips records that it cannot understand."""
    if content is None:
        return None
    try:
        return json.loads(content)
    except ValueError:
        return None


def decode_object(content: bytes | None) -> dict[str, Any] | None:
    found = decode_json(content)
    return found if isinstance(found, dict) else None
