"""Every message in every version: our encoding equals kio's, and each decodes the other's.

kio only reads bytes that one of the two has written: its reader is not made for others.
"""

from __future__ import annotations

import dataclasses
import datetime
import io
import uuid
from typing import Any

import pytest
from kio.index import load_entity_schema, load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader, entity_writer
from kio.serial._implicit_defaults import get_tagged_field_default
from kio.static.constants import EntityType

from penstock.protocol import codec
from penstock.protocol.definitions.index import APIS
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.schema import Message, Primitive, Struct
from tests.property.arbitrary_messages import OTHER_MESSAGES, arbitrary, every_message, seeded, versions_of

ROUNDS = 6
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MODULES = {name: module for module, name in OTHER_MESSAGES.items()}


def kio_class(cls: type[Message], version: int) -> Any:
    if cls.API_KEY is not None:
        is_request = cls.__name__ == APIS[cls.API_KEY].request
        return (load_request_schema if is_request else load_response_schema)(cls.API_KEY, version)
    if cls.__name__.endswith("Header"):
        return load_entity_schema(MODULES[cls.__name__], version, EntityType.header)
    return load_entity_schema(MODULES[cls.__name__], version, EntityType.data)


def in_kio_terms(target: Any, ours: Struct, version: int) -> Any:
    """The same content as an instance of kio's class for this version."""
    values = {}
    names = set()
    for field in dataclasses.fields(target):
        kafka_type = field.metadata.get("kafka_type", "")
        name = f"{field.name}_ms" if kafka_type.startswith(("timedelta", "datetime")) else field.name
        names.add(name)
        values[field.name] = kio_value(field, kafka_type, ours.FIELDS[name].kind, getattr(ours, name), version)
    assert names == {name for name, field in ours.FIELDS.items() if field.exists_in(version)}
    return target(**values)


def kio_value(
    field: dataclasses.Field[Any], kafka_type: str, kind: Primitive | type[Struct], value: Any, version: int
) -> Any:
    if isinstance(value, list):
        return tuple(kio_value(field, kafka_type, kind, element, version) for element in value)
    if value is None and not isinstance(kind, Primitive) and "tag" in field.metadata:
        return get_tagged_field_default(field)  # kio has a struct of default values where we have None
    if value is None:
        return None
    if isinstance(value, Struct):
        return in_kio_terms(struct_type(field.type), value, version)
    match kafka_type:
        case "uuid":
            return uuid.UUID(bytes=value) if any(value) else None
        case "error_code":
            return KioErrorCode(value)
        case "timedelta_i32" | "timedelta_i64":
            return datetime.timedelta(milliseconds=value)
        case "datetime_i64":
            return None if value == -1 else EPOCH + datetime.timedelta(milliseconds=value)
    return value


def struct_type(annotation: Any) -> Any:
    """The dataclass inside `tuple[X, ...]`, `X | None` and their combinations."""
    if dataclasses.is_dataclass(annotation):
        return annotation
    found = [struct_type(argument) for argument in getattr(annotation, "__args__", ()) if argument is not Ellipsis]
    return next((inner for inner in found if inner is not None), None)


@pytest.mark.parametrize("cls", every_message(), ids=lambda cls: cls.__name__)
def test_the_bytes_are_those_of_kio(cls: type[Message]) -> None:
    for version in versions_of(cls):
        target = kio_class(cls, version)
        assert target.__flexible__ == (version >= cls.FLEXIBLE_SINCE)
        for round_ in range(ROUNDS):
            ours = arbitrary(cls, version, seeded(cls, version, round_))
            theirs = in_kio_terms(target, ours, version)
            out = bytearray()
            codec.writer(cls, version)(out, ours)
            with io.BytesIO() as buffer:
                entity_writer(target)(buffer, theirs)
                assert bytes(out) == buffer.getvalue(), f"v{version}, round {round_}"
            assert codec.reader(cls, version)(out, 0, len(out)) == (ours, len(out)), f"v{version}, round {round_}"
            assert entity_reader(target)(bytes(out), 0) == (theirs, len(out)), f"v{version}, round {round_}"


def test_every_api_and_version_of_kio_is_there() -> None:
    from kio.schema.index import api_key_map, schema_name_map

    assert {key: api.name for key, api in APIS.items()} == dict(api_key_map)
    for api in APIS.values():
        assert list(range(api.min_version, api.max_version + 1)) == sorted(schema_name_map[api.name])


def test_the_error_codes_are_those_of_kio() -> None:
    ours = {(code.name.lower(), int(code), code.retriable) for code in ErrorCode}
    assert ours == {(code.name, int(code), code.retriable) for code in KioErrorCode}
