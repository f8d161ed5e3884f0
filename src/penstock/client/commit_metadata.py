"""The text that a client commits with an offset, as confluent-kafka returns it.

librdkafka copies such a text without the zero byte at its end, and confluent-kafka then reads on in memory until it
finds one: behind the text there may be anything, also bytes that are not UTF-8. Texts of Penstock's own are JSON
objects, whose end can be found.
"""

from __future__ import annotations

import json
from typing import Any


def metadata_of(partition: Any) -> str:
    """The metadata of a partition of confluent-kafka's; "" for none."""
    try:
        text = partition.metadata or ""
    except UnicodeDecodeError as beyond:
        text = beyond.object.decode("utf-8", "replace")
    if not text.startswith("{"):
        return text
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except ValueError:
        return text
    return text[:end]
