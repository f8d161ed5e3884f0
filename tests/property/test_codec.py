"""Properties of the readers and writers of every message and version."""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Any, TypeVar

import pytest

from penstock.core.errors import ProtocolError
from penstock.protocol import codec
from penstock.protocol.reader_source import smallest_size
from penstock.protocol.schema import NEVER, STRING, Field, Message, Primitive, Struct
from tests.property.arbitrary_messages import arbitrary, every_message, flexible_versions_of, seeded, versions_of

S = TypeVar("S", bound=Struct)
PREFIXES_MAX = 200

of_every_message: Callable[..., Any] = pytest.mark.parametrize("cls", every_message(), ids=lambda cls: cls.__name__)


def encoded(message: Message, version: int) -> bytearray:
    out = bytearray()
    codec.writer(type(message), version)(out, message)
    return out


@of_every_message
def test_a_message_of_defaults_can_be_written_in_every_version(cls: type[Message]) -> None:
    for version in versions_of(cls):
        out = encoded(cls(), version)
        message, position = codec.reader(cls, version)(out, 0, len(out))
        assert position == len(out)
        assert message == cls()
        filled = with_default_elements(cls, version)
        out = encoded(filled, version)
        assert codec.reader(cls, version)(out, 0, len(out)) == (filled, len(out))


@of_every_message
def test_bytes_bytearrays_and_memoryviews_read_the_same_from_any_position(cls: type[Message]) -> None:
    for version in versions_of(cls):
        message = arbitrary(cls, version, seeded(cls, version))
        out = encoded(message, version)
        read, end = codec.reader(cls, version), 3 + len(out)
        for buffer in (b"abc" + out + b"de", bytearray(b"abc" + out + b"de"), memoryview(b"abc" + out + b"de")):
            assert read(buffer, 3, end) == (message, end)


@of_every_message
def test_a_truncated_message_is_a_protocol_error(cls: type[Message]) -> None:
    for version in versions_of(cls):
        chance = seeded(cls, version)
        out = bytes(encoded(arbitrary(cls, version, chance), version))
        read = codec.reader(cls, version)
        prefixes = range(len(out)) if len(out) <= PREFIXES_MAX else chance.sample(range(len(out)), PREFIXES_MAX)
        for length in prefixes:
            with pytest.raises(ProtocolError):
                read(out[:length], 0, length)
            with pytest.raises(ProtocolError):
                read(out, 0, length)


@of_every_message
def test_damaged_and_random_bytes_raise_nothing_but_protocol_errors(cls: type[Message]) -> None:
    for version in versions_of(cls):
        chance = seeded(cls, version)
        read = codec.reader(cls, version)
        out = encoded(arbitrary(cls, version, chance), version)
        for round_ in range(60):
            if round_ % 3 == 0:
                garbage = bytearray(chance.randbytes(chance.randrange(80)))
            else:
                garbage = bytearray(out)
                for _ in range(chance.choice((1, 1, 2, 5))):
                    if garbage:
                        garbage[chance.randrange(len(garbage))] = chance.choice(
                            (0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256))
                        )
            try:
                message, position = read(garbage, 0, len(garbage))
            except ProtocolError:
                continue
            assert position <= len(garbage)
            # What was accepted is a message like any other: it can be written, and reads the same again.
            again = encoded(message, version)
            assert codec.reader(cls, version)(again, 0, len(again))[1] == len(again)


@of_every_message
def test_spliced_records_are_what_a_plain_writer_writes(cls: type[Message]) -> None:
    for version in versions_of(cls):
        for round_ in range(3):
            message = arbitrary(cls, version, seeded(cls, version, round_))
            out = bytearray()
            splices: list[tuple[int, Sized]] = []
            codec.splicing_writer(cls, version)(out, message, splices)
            assert [position for position, _ in splices] == sorted(position for position, _ in splices)
            whole, begin = b"", 0
            for position, records in splices:
                assert isinstance(records, bytes)
                whole += out[begin:position] + records
                begin = position
            assert whole + out[begin:] == encoded(message, version)


@of_every_message
def test_unknown_tagged_fields_are_skipped_wherever_they_are(cls: type[Message]) -> None:
    for version in flexible_versions_of(cls):
        future = with_unknown_fields(cls, {})
        message = arbitrary(cls, version, seeded(cls, version))
        from_the_future = in_the_future(message, {cls: future})
        assert isinstance(from_the_future, Message)
        out = encoded(from_the_future, version)
        assert len(out) > len(encoded(message, version))
        assert codec.reader(cls, version)(out, 0, len(out)) == (message, len(out))


@of_every_message
def test_no_array_has_elements_without_bytes(cls: type[Message]) -> None:
    for version in versions_of(cls):
        flexible = version >= cls.FLEXIBLE_SINCE
        assert all(smallest_size(kind, version, flexible) > 0 for kind in element_kinds(cls, version))


def with_default_elements(cls: type[S], version: int) -> S:
    """One element of defaults in every array, so that the defaults of every struct are there to be written."""
    return cls(
        **{
            name: [field.kind.zero if isinstance(field.kind, Primitive) else with_default_elements(field.kind, version)]
            for name, field in cls.FIELDS.items()
            if field.is_array and field.exists_in(version)
        }
    )


def element_kinds(cls: type[Struct], version: int) -> list[Primitive | type[Struct]]:
    kinds: list[Primitive | type[Struct]] = []
    for field in cls.FIELDS.values():
        if field.exists_in(version):
            kinds += [field.kind] if field.is_array else []
            kinds += [] if isinstance(field.kind, Primitive) else element_kinds(field.kind, version)
    return kinds


def with_unknown_fields(cls: Any, known: dict[Any, Any]) -> Any:
    """The class as a later protocol might have it: every struct in it has two more tagged fields."""
    if cls not in known:
        fields: dict[str, Any] = {
            name: field
            if isinstance(field.kind, Primitive)
            else field._replace(kind=with_unknown_fields(field.kind, known))
            for name, field in cls.FIELDS.items()
        }
        fields["unknown"] = Field(STRING, False, 0, NEVER, NEVER, 40, "", False)
        fields["unknown_with_long_tag"] = Field(STRING, True, 0, NEVER, NEVER, 5000, None, False)
        if issubclass(cls, Message):
            options = {"versions": cls.VERSIONS, "flexible_since": cls.FLEXIBLE_SINCE}
            known[cls] = type(cls)(cls.__name__, (Message,), fields, **options)
        else:
            known[cls] = type(cls)(cls.__name__, (Struct,), fields)
    return known[cls]


def in_the_future(value: Any, known: dict[Any, Any]) -> Any:
    if isinstance(value, list):
        return [in_the_future(element, known) for element in value]
    if not isinstance(value, Struct):
        return value
    future = with_unknown_fields(type(value), known)
    values = {name: in_the_future(getattr(value, name), known) for name in value.FIELDS}
    return future(**values, unknown="x" * 200, unknown_with_long_tag=["a", "b"])
