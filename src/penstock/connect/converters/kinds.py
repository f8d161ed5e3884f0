"""The converters of Kafka Connect by their Java class names. Modules are imported on first use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SIMPLE_HEADER_CONVERTER: Final = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
_HERE: Final = "penstock.connect.converters"

KINDS: Final[Mapping[str, str]] = {
    "org.apache.kafka.connect.converters.BooleanConverter": f"{_HERE}.fixed_size:BooleanConverter",
    "org.apache.kafka.connect.converters.ByteArrayConverter": f"{_HERE}.byte_array:ByteArrayConverter",
    "org.apache.kafka.connect.converters.DoubleConverter": f"{_HERE}.fixed_size:DoubleConverter",
    "org.apache.kafka.connect.converters.FloatConverter": f"{_HERE}.fixed_size:FloatConverter",
    "org.apache.kafka.connect.converters.IntegerConverter": f"{_HERE}.fixed_size:IntegerConverter",
    "org.apache.kafka.connect.converters.LongConverter": f"{_HERE}.fixed_size:LongConverter",
    "org.apache.kafka.connect.converters.ShortConverter": f"{_HERE}.fixed_size:ShortConverter",
    "org.apache.kafka.connect.json.JsonConverter": f"{_HERE}.json.converter:JsonConverter",
    "org.apache.kafka.connect.storage.StringConverter": f"{_HERE}.string:StringConverter",
}
"""For `key.converter` and `value.converter`."""

HEADER_KINDS: Final[Mapping[str, str]] = {
    SIMPLE_HEADER_CONVERTER: f"{_HERE}.simple_header:SimpleHeaderConverter",
    "org.apache.kafka.connect.converters.BooleanConverter": f"{_HERE}.fixed_size:BooleanHeaderConverter",
    "org.apache.kafka.connect.converters.ByteArrayConverter": f"{_HERE}.byte_array:ByteArrayHeaderConverter",
    "org.apache.kafka.connect.converters.DoubleConverter": f"{_HERE}.fixed_size:DoubleHeaderConverter",
    "org.apache.kafka.connect.converters.FloatConverter": f"{_HERE}.fixed_size:FloatHeaderConverter",
    "org.apache.kafka.connect.converters.IntegerConverter": f"{_HERE}.fixed_size:IntegerHeaderConverter",
    "org.apache.kafka.connect.converters.LongConverter": f"{_HERE}.fixed_size:LongHeaderConverter",
    "org.apache.kafka.connect.converters.ShortConverter": f"{_HERE}.fixed_size:ShortHeaderConverter",
    "org.apache.kafka.connect.json.JsonConverter": f"{_HERE}.json.converter:JsonHeaderConverter",
    "org.apache.kafka.connect.storage.StringConverter": f"{_HERE}.string:StringHeaderConverter",
}
"""For `header.converter`."""
