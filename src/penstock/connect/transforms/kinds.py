"""The transforms and predicates, by Java class name. Modules are imported on first use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_KAFKA: Final = "org.apache.kafka.connect.transforms"
_OURS: Final = "penstock.connect.transforms"


def _of_key_and_value(name: str, module: str) -> dict[str, str]:
    return {f"{_KAFKA}.{name}${part}": f"{_OURS}.{module}:{name}{part}" for part in ("Key", "Value")}


PREDICATE_KINDS: Final[Mapping[str, str]] = {
    f"{_KAFKA}.predicates.{name}": f"{_OURS}.predicates:{name}"
    for name in ("HasHeaderKey", "RecordIsTombstone", "TopicNameMatches")
}

KINDS: Final[Mapping[str, str]] = {
    **_of_key_and_value("Cast", "cast"),
    f"{_KAFKA}.DropHeaders": f"{_OURS}.headers:DropHeaders",
    **_of_key_and_value("ExtractField", "extract_field"),
    f"{_KAFKA}.Filter": f"{_OURS}.filter:Filter",
    **_of_key_and_value("Flatten", "flatten"),
    **_of_key_and_value("HeaderFrom", "headers"),
    **_of_key_and_value("HoistField", "hoist_field"),
    **_of_key_and_value("InsertField", "insert_field"),
    f"{_KAFKA}.InsertHeader": f"{_OURS}.headers:InsertHeader",
    **_of_key_and_value("MaskField", "mask_field"),
    f"{_KAFKA}.RegexRouter": f"{_OURS}.routing:RegexRouter",
    **_of_key_and_value("ReplaceField", "replace_field"),
    **_of_key_and_value("SetSchemaMetadata", "set_schema_metadata"),
    **_of_key_and_value("TimestampConverter", "timestamp_converter"),
    f"{_KAFKA}.TimestampRouter": f"{_OURS}.routing:TimestampRouter",
    f"{_KAFKA}.ValueToKey": f"{_OURS}.value_to_key:ValueToKey",
    "io.debezium.transforms.ExtractNewRecordState": f"{_OURS}.debezium.unwrap:ExtractNewRecordState",
    "io.debezium.transforms.outbox.EventRouter": f"{_OURS}.debezium.outbox:EventRouter",
    "penstock.transforms.Python": f"{_OURS}.programs:Python",
    "penstock.transforms.Sql": f"{_OURS}.programs:Sql",
    **PREDICATE_KINDS,
}
"""Transforms and predicates."""
