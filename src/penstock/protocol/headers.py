"""Request and response headers, hand-written because every request and response passes through here.

The API and its version determine the header version: flexible versions have tagged fields in the header too. Kafka has
two exceptions: a client id is always a legacy string, and an ApiVersions response always has header v0, because the
client does not know the broker's versions yet.
"""

from __future__ import annotations

import struct
from struct import Struct as Packing
from typing import Final

from penstock.core.errors import ProtocolError
from penstock.protocol.definitions.index import APIS
from penstock.protocol.varint import skip_tagged_fields

API_VERSIONS_KEY: Final = 18

_FLEXIBLE_SINCE: Final = {key: api.flexible_since for key, api in APIS.items()}
_REQUEST_HEADER: Final = Packing(">hhih")  # API key, version, correlation id, length of the client id
_RESPONSE_HEADER_V0: Final = Packing(">ii")  # size of the frame, correlation id
_RESPONSE_HEADER_V1: Final = Packing(">iix")
_SIZE: Final = Packing(">i")


def request_header_version(api_key: int, version: int) -> int:
    return 2 if version >= _FLEXIBLE_SINCE[api_key] else 1


def response_header_version(api_key: int, version: int) -> int:
    return 1 if version >= _FLEXIBLE_SINCE[api_key] and api_key != API_VERSIONS_KEY else 0


def read_request_header(
    buffer: bytes | bytearray | memoryview, position: int, end: int
) -> tuple[int, int, int, str | None, int]:
    """(API key, API version, correlation id, client id, position after the header).

    An unknown API key raises ProtocolError: the rest cannot be parsed. The version is not checked.
    """
    try:
        api_key, version, correlation_id, length = _REQUEST_HEADER.unpack_from(buffer, position)
        position += 10
        client_id = None
        if length >= 0:
            start, position = position, position + length
            client_id = str(buffer[start:position], "utf-8")
        if version >= _FLEXIBLE_SINCE[api_key]:
            if position < end and buffer[position] == 0:
                position += 1
            else:
                position = skip_tagged_fields(buffer, position, end)
    except KeyError:
        raise ProtocolError(f"there is no API with the key {api_key}") from None
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ProtocolError(f"request header: {error}") from error
    if position > end:
        raise ProtocolError("a request header is longer than its frame")
    return api_key, version, correlation_id, client_id, position


def begin_response(out: bytearray, correlation_id: int, header_version: int) -> int:
    """Appends a placeholder for the frame's size, and the header. Returns the frame's start, for `end_response`."""
    start = len(out)
    out += (_RESPONSE_HEADER_V1 if header_version else _RESPONSE_HEADER_V0).pack(0, correlation_id)
    return start


def end_response(out: bytearray, start: int, spliced_bytes: int = 0) -> None:
    """Writes the size of the frame that begins at `start`. `spliced_bytes` are part of it, but not in `out`."""
    _SIZE.pack_into(out, start, len(out) - start - 4 + spliced_bytes)
