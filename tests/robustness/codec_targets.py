"""Bytes from a peer into the code that first looks at them, in process: what a fuzzer calls with bytes of its making.

Two things may come of any bytes: a result, or the one error that says that the peer is wrong. Everything else that is
raised is a bug, and so is a result that cannot be written again.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final

from crc32c import crc32c

from penstock.broker.batch_validation import BatchRules, validated_batch
from penstock.broker.router import BY_API_KEY
from penstock.core.errors import ProtocolError
from penstock.metadata.config_source import BrokerLayers
from penstock.metadata.topic_config import TopicConfig
from penstock.protocol.codec import request_class, writer
from penstock.protocol.error_codes import BrokerError
from penstock.protocol.framing import BufferPool, FrameBuffer
from penstock.protocol.headers import read_request_header
from penstock.protocol.record_batch import CRC_START, HEADER_BYTES, parse_header
from penstock.protocol.records import record_positions

NOW_MS: Final = 1_800_000_000_000
PRODUCE_VERSION: Final = 9
UNFOLDED_BYTES_MAX: Final = 1 << 20

_INHERITED: Final = TopicConfig.inherited(BrokerLayers())
_TOPICS: Final[Sequence[Mapping[str, str]]] = (
    {},
    {"cleanup.policy": "compact"},
    {"compression.type": "zstd"},
    {"message.timestamp.type": "LogAppendTime"},
    {"message.timestamp.before.max.ms": "1000"},
)
RULES: Final = tuple(BatchRules.of(_INHERITED.with_overrides(overrides)) for overrides in _TOPICS)


def read_request(content: bytes) -> None:
    """A frame's content, as the connection reads it. What was read can be written, and then reads the same."""
    view = memoryview(content)
    try:
        api_key, version, _, _, position = read_request_header(view, 0, len(view))
        route = BY_API_KEY.get(api_key)
        if route is None:
            return
        request = route.read(version, view, position)
    except ProtocolError:
        return
    written = bytearray()
    writer(request_class(api_key), version)(written, request)
    assert route.read(version, memoryview(written), 0) == request


def read_frames(stream: bytes) -> None:
    """A stream of bytes in reads of odd sizes. Frames hold what was sent, and memory follows what has arrived."""
    frames = FrameBuffer(1 << 16, pool=BufferPool(64), retained_bytes_max=256)
    taken = position = 0
    try:
        while position < len(stream):
            room = frames.get_buffer()
            count = min(len(room), len(stream) - position, 1 + position % 37)
            room[:count] = stream[position : position + count]
            frames.advance(count)
            position += count
            assert frames.capacity <= max(256, 2 * (position - taken))
            while (frame := frames.next_frame()) is not None:
                (size,) = struct.unpack_from(">i", stream, taken)
                assert bytes(frame) == stream[taken + 4 : taken + 4 + size]
                taken += 4 + size
    except ProtocolError:
        return


def validate_batch(content: bytes, *, hold_crc: bool) -> None:
    """A producer's records under every kind of topic; with `hold_crc` the header's CRC is made to fit first."""
    for rules in RULES:
        batch = bytearray(content)
        if hold_crc and len(batch) >= HEADER_BYTES:
            struct.pack_into(">I", batch, CRC_START - 4, crc32c(bytes(batch[CRC_START:])))
        try:
            kept, header = validated_batch(memoryview(batch), rules, PRODUCE_VERSION, NOW_MS)
        except BrokerError:
            continue
        assert parse_header(kept) == header
        assert header.records_count == header.last_offset_delta + 1 > 0
        assert crc32c(bytes(kept[CRC_START:])) == header.crc
        try:
            for _ in record_positions(kept, header, UNFOLDED_BYTES_MAX):
                pass
        except ProtocolError:
            continue


def everything(content: bytes) -> None:
    """The first byte chooses what the others are given to."""
    if not content:
        return
    match content[0] % 4:
        case 0 | 1:
            read_request(content[1:])
        case 2:
            read_frames(content[1:])
        case _:
            validate_batch(content[1:], hold_crc=content[0] >= 0x80)
