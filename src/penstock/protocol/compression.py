"""Compression of a record batch's payload, in the formats of Kafka's clients.

cramjam implements the codecs. This module adds the framing of Java's snappy streams, and a limit on the decompressed
size: sizes that a peer declares are never trusted.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from types import ModuleType
from typing import Final

import cramjam

from penstock.core.errors import ProtocolError

_INT: Final = Struct(">i")
# Java's SnappyOutputStream: a magic, two version numbers, then blocks of raw snappy, each after its length.
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + _INT.pack(1) + _INT.pack(1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_SMALLEST_BUFFER_BYTES: Final = 64 * 1024
_BUFFER_TOO_SMALL: Final = "failed to write whole buffer"


class Compression(IntEnum):
    """The codec numbers in the lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


BY_CONFIG_NAME: Final = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


def compress(codec: Compression, payload: bytes | memoryview, level: int | None = None) -> bytes:
    """`level` is codec-specific; None selects the codec's default."""
    match codec:
        case Compression.NONE:
            return bytes(payload)
        case Compression.GZIP:
            return bytes(cramjam.gzip.compress(payload, level=6 if level is None or level < 0 else level))
        case Compression.SNAPPY:
            return _compress_xerial(payload)
        case Compression.LZ4:
            return _compress_lz4(payload, level)
        case Compression.ZSTD:
            return bytes(cramjam.zstd.compress(payload, level=level))


def decompress(codec: int, payload: bytes | memoryview, bytes_max: int) -> bytes | memoryview:
    """The decompressed payload. Raises ProtocolError if it is invalid or larger than `bytes_max`."""
    try:
        match codec:
            case Compression.NONE:
                return payload
            case Compression.GZIP:
                return _decompress_framed(cramjam.gzip, payload, bytes_max)
            case Compression.SNAPPY:
                return _decompress_snappy(payload, bytes_max)
            case Compression.LZ4:
                return _decompress_framed(cramjam.lz4, payload, bytes_max)
            case Compression.ZSTD:
                return _decompress_framed(cramjam.zstd, payload, bytes_max)
    except cramjam.DecompressionError as error:
        raise ProtocolError(f"the payload is not valid {Compression(codec).name.lower()}: {error}") from error
    raise ProtocolError(f"unknown compression codec {codec}")


def _compress_lz4(payload: bytes | memoryview, level: int | None) -> bytes:
    """Independent blocks: Kafka's Java clients refuse a frame whose blocks refer to earlier ones."""
    compressor = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    compressor.compress(bytes(payload))
    return bytes(compressor.finish())


def _compress_xerial(payload: bytes | memoryview) -> bytes:
    out = bytearray(_XERIAL_HEADER)
    view = memoryview(payload)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        out += _INT.pack(len(block))
        out += block
    return bytes(out)


def _decompress_snappy(payload: bytes | memoryview, bytes_max: int) -> bytes:
    """Java writes a magic and blocks; librdkafka and others write one raw block."""
    view = memoryview(payload)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _decompress_snappy_block(view, bytes_max)
    out = bytearray()
    position = len(_XERIAL_HEADER)
    while position < len(view):
        if position + _INT.size > len(view):
            raise ProtocolError("a snappy stream ends inside the length of a block")
        (length,) = _INT.unpack_from(view, position)
        position += _INT.size
        if length < 0 or position + length > len(view):
            raise ProtocolError("a snappy block is longer than its stream")
        out += _decompress_snappy_block(view[position : position + length], bytes_max - len(out))
        position += length
    return bytes(out)


def _decompress_snappy_block(block: memoryview, bytes_max: int) -> bytes:
    announced = _snappy_length(block)
    if announced > bytes_max:
        raise ProtocolError(f"a snappy block decompresses to {announced} bytes; at most {bytes_max} are allowed")
    return bytes(cramjam.snappy.decompress_raw(block))


def _snappy_length(block: memoryview) -> int:
    """A raw snappy block begins with its decompressed length as a varint."""
    value = 0
    for index, byte in enumerate(block[:5]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value
    raise ProtocolError("a snappy block has no length")


def _decompress_framed(module: ModuleType, payload: bytes | memoryview, bytes_max: int) -> memoryview:
    """Decompresses into a buffer that grows until the payload fits; a decompression bomb stops at the limit."""
    capacity = min(bytes_max, max(_SMALLEST_BUFFER_BYTES, 4 * len(payload)))
    while True:
        out = bytearray(capacity)
        try:
            return memoryview(out)[: module.decompress_into(payload, out)]
        except cramjam.DecompressionError as error:
            if _BUFFER_TOO_SMALL not in str(error):
                raise
        if capacity >= bytes_max:
            raise ProtocolError(f"a compressed payload decompresses to more than the allowed {bytes_max} bytes")
        capacity = min(bytes_max, 4 * capacity)
