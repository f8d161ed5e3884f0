"""Request and response headers."""

from __future__ import annotations

import struct

import pytest

from penstock.core.errors import ProtocolError
from penstock.protocol import codec
from penstock.protocol.definitions.index import APIS
from penstock.protocol.definitions.request_header import RequestHeader
from penstock.protocol.definitions.response_header import ResponseHeader
from penstock.protocol.headers import (
    begin_response,
    end_response,
    read_request_header,
    request_header_version,
    response_header_version,
)


def request_header(api_key: int, version: int, client_id: str | None = "tester") -> bytearray:
    out = bytearray()
    header = RequestHeader(request_api_key=api_key, request_api_version=version, correlation_id=77, client_id=client_id)
    codec.writer(RequestHeader, request_header_version(api_key, version))(out, header)
    return out


@pytest.mark.parametrize("client_id", [None, "", "tester", "ü" * 200])
def test_the_reader_by_hand_reads_what_the_definition_says(client_id: str | None) -> None:
    for key, api in APIS.items():
        for version in range(api.min_version, api.max_version + 1):
            out = b"abc" + request_header(key, version, client_id)
            expected = (key, version, 77, client_id, len(out))
            assert read_request_header(memoryview(out + b"request"), 3, len(out) + 7) == expected


def test_tagged_fields_of_a_request_header_are_skipped() -> None:
    out = request_header(0, 9)
    assert out.pop() == 0
    out += b"\x02\x05\x03abc\x90\x4e\x00request"
    assert read_request_header(out, 0, len(out)) == (0, 9, 77, "tester", len(out) - 7)


def test_a_truncated_request_header_is_a_protocol_error() -> None:
    out = bytes(request_header(0, 9))
    for length in range(len(out)):
        with pytest.raises(ProtocolError):
            read_request_header(out[:length], 0, length)
        with pytest.raises(ProtocolError):
            read_request_header(out, 0, length)


def test_an_unknown_api_key_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError, match="key 999"):
        read_request_header(struct.pack(">hhih", 999, 0, 1, -1), 0, 10)


def test_an_unknown_version_is_left_to_the_caller() -> None:
    """A client that is newer than the broker sends ApiVersions in an unknown version."""
    assert read_request_header(struct.pack(">hhihx", 18, 99, 1, -1), 0, 11) == (18, 99, 1, None, 11)


def test_a_client_id_that_is_not_utf8_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError):
        read_request_header(struct.pack(">hhih2s", 3, 0, 1, 2, b"\xff\xfe"), 0, 12)


def test_header_versions() -> None:
    assert (request_header_version(0, 8), response_header_version(0, 8)) == (1, 0)
    assert (request_header_version(0, 9), response_header_version(0, 9)) == (2, 1)
    assert (request_header_version(18, 3), response_header_version(18, 3)) == (2, 0)
    assert (request_header_version(17, 1), response_header_version(17, 1)) == (1, 0)


@pytest.mark.parametrize("header_version", [0, 1])
def test_a_response_frame_has_its_size_and_header_in_front(header_version: int) -> None:
    out = bytearray(b"earlier")
    start = begin_response(out, 77, header_version)
    out += b"body"
    end_response(out, start, spliced_bytes=100)
    header = bytearray()
    codec.writer(ResponseHeader, header_version)(header, ResponseHeader(correlation_id=77))
    assert out == b"earlier" + struct.pack(">i", len(header) + 4 + 100) + header + b"body"
