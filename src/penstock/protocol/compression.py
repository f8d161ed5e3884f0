"""The five compressions of a record batch's payload, as Kafka's clients write and expect them.

cramjam does the work; what is ours is the framing that Java's snappy stream puts around its blocks, and the bound on
what a small payload may unfold to: a peer's word about sizes is never believed.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from types import ModuleType
from typing import Final

import cramjam

from penstock.core.errors import ProtocolError

_INT: Final = Struct(">i")
# Java's SnappyOutputStream: a magic, two version numbers, then blocks of raw snappy behind a length each.
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + _INT.pack(1) + _INT.pack(1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_SMALLEST_BUFFER_BYTES: Final = 64 * 1024
_BUFFER_TOO_SMALL: Final = "failed to write whole buffer"


class Compression(IntEnum):
    """The codec's number in the lowest three bits of a batch's attributes."""

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
    """`level` is the codec's own scale; None takes the codec's default."""
    match codec:
        case Compression.NONE:
            return bytes(payload)
        case Compression.GZIP:
            return bytes(cramjam.gzip.compress(payload, level=6 if level is None or level < 0 else level))
        case Compression.SNAPPY:
            return _compress_xerial(payload)
        case Compression.LZ4:
            return bytes(cramjam.lz4.compress(payload, level=level))
        case Compression.ZSTD:
            return bytes(cramjam.zstd.compress(payload, level=level))


def decompress(codec: int, payload: bytes | memoryview, bytes_max: int) -> bytes | memoryview:
    """The payload's plain bytes; more than `bytes_max` of them, or damage, is a ProtocolError."""
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


def _compress_xerial(payload: bytes | memoryview) -> bytes:
    out = bytearray(_XERIAL_HEADER)
    view = memoryview(payload)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        out += _INT.pack(len(block))
        out += block
    return bytes(out)


def _decompress_snappy(payload: bytes | memoryview, bytes_max: int) -> bytes:
    """Java writes blocks behind a magic; librdkafka and others write one raw block."""
    view = memoryview(payload)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _decompress_snappy_block(view, bytes_max)
    out = bytearray()
    position = len(_XERIAL_HEADER)
    while position < len(view):
        if position + _INT.size > len(view):
            raise ProtocolError("a snappy stream ends within a block's length")
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
        raise ProtocolError(f"a snappy block unfolds to {announced} bytes, more than the {bytes_max} allowed")
    return bytes(cramjam.snappy.decompress_raw(block))


def _snappy_length(block: memoryview) -> int:
    """A raw snappy block opens with its plain length as a varint."""
    value = 0
    for index, byte in enumerate(block[:5]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value
    raise ProtocolError("a snappy block has no length")


def _decompress_framed(module: ModuleType, payload: bytes | memoryview, bytes_max: int) -> memoryview:
    """Unfolds into a buffer of ours that grows until the payload fits: a bomb is noticed at the bound."""
    capacity = min(bytes_max, max(_SMALLEST_BUFFER_BYTES, 4 * len(payload)))
    while True:
        out = bytearray(capacity)
        try:
            return memoryview(out)[: module.decompress_into(payload, out)]
        except cramjam.DecompressionError as error:
            if _BUFFER_TOO_SMALL not in str(error):
                raise
        if capacity >= bytes_max:
            raise ProtocolError(f"a compressed payload unfolds to more than the {bytes_max} bytes allowed")
        capacity = min(bytes_max, 4 * capacity)
