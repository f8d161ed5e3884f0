"""Serializers and deserializers for text, bytes and JSON."""

from __future__ import annotations

import pytest

from penstock.client.serializers import deserializer, serializer
from penstock.core.errors import InvalidClientSetting


@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        ("string", "grün", "grün".encode()),
        ("json", {"a": [1, None, "ü"]}, '{"a":[1,null,"ü"]}'.encode()),
        ("bytes", b"\x00\xff", b"\x00\xff"),
    ],
)
def test_there_and_back(name: str, value: object, data: bytes) -> None:
    assert serializer(name)(value) == data  # type: ignore[arg-type]
    assert deserializer(name)(data) == value  # type: ignore[arg-type]


def test_without_a_name_text_is_utf_8_and_bytes_stay() -> None:
    plain = serializer(None)
    assert plain("ü") == "ü".encode()
    assert plain(bytearray(b"ab")) == plain(memoryview(b"ab")) == plain(b"ab") == b"ab"
    assert deserializer(None)(b"ab") == b"ab"
    with pytest.raises(TypeError, match="got dict; set a serializer"):
        plain({})


@pytest.mark.parametrize(("name", "value"), [("string", b"x"), ("bytes", "x")])
def test_the_wrong_type_is_an_error(name: str, value: object) -> None:
    with pytest.raises(TypeError, match="expected"):
        serializer(name)(value)  # type: ignore[arg-type]


def test_a_callable_is_used_as_it_is() -> None:
    assert serializer(lambda value: b"%d" % value)(7) == b"7"
    assert deserializer(int)(b"7") == 7


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(
        InvalidClientSetting, match=r"no serializer 'avro': expected a callable or one of bytes, string"
    ):
        serializer("avro")  # type: ignore[arg-type]
