"""Requests for the fuzzer to spoil: every API and version that the broker serves, from a seed.

A request of arbitrary values alone would be refused at the first unknown topic. So most of its fields are then set to
what exists on the fuzzed broker (topics, partitions, configuration names, real record batches), and the handlers get to
work. The ids of topics are not known before the broker runs: `PLACEHOLDER_IDS` stand in for them, so that the same seed
always makes the same frames, and `with_real_ids` puts the real ones in.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final

from crc32c import crc32c

from penstock.broker.router import ROUTES
from penstock.metadata.broker_config_definitions import BROKER_CONFIGS
from penstock.metadata.topic_config_definitions import TOPIC_CONFIGS
from penstock.protocol.codec import request_class
from penstock.protocol.compression import Compression
from penstock.protocol.record_batch import CRC_START, HEADER_BYTES
from penstock.protocol.schema import Struct
from tests.property.arbitrary_messages import arbitrary
from tests.record_batches import Record, encode_batch
from tests.wire_client import encode_request

TOPICS: Final = ("fuzzed-plain", "fuzzed-compacted", "fuzzed-gzip", "fuzzed-log-append-time")
TOPIC_CONFIGURATIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "fuzzed-plain": {},
    "fuzzed-compacted": {"cleanup.policy": "compact"},
    "fuzzed-gzip": {"compression.type": "gzip", "message.timestamp.before.max.ms": "3600000"},
    "fuzzed-log-append-time": {"message.timestamp.type": "LogAppendTime", "max.message.bytes": "5000"},
}
PLACEHOLDER_IDS: Final = tuple(f"{name:.>16}"[-16:].encode() for name in TOPICS)
SERVED: Final = tuple(
    (route.api_key, version) for route in ROUTES for version in range(route.min_version, route.max_version + 1)
)

_CONFIG_NAMES: Final = (*TOPIC_CONFIGS, *BROKER_CONFIGS)
_EXTREMES: Final = (0, 1, -1, -2, 2**31 - 1, -(2**31), 127, 128, 255, 32767, -32768)
_BATCH_FIELDS: Final = {
    "base_offset": (1, -1, 2**63 - 1),
    "batch_length": (0, -1, 13, 14, 48, 49, 2**31 - 1),
    "magic": (0, 1, 3, -1, 127),
    "attributes": (5, 7, 8, 16, 32, -1),
    "last_offset_delta": (-1, 0, 5, 2**31 - 1, -(2**31)),
    "base_timestamp": (-1, 0, 2**63 - 1, -(2**63)),
    "max_timestamp": (-1, 0, 2**63 - 1, -(2**63)),
    "producer_id": (-2, 0, 2**63 - 1),
    "producer_epoch": (-1, 32767),
    "base_sequence": (-1, 2**31 - 1),
    "records_count": (-1, 0, 2, 2**31 - 1),
}

Choice = Callable[[Random], Any]


def corpus_of(chance: Random, requests_each: int, served: Sequence[tuple[int, int]] = SERVED) -> list[bytes]:
    """Encoded requests, header and body, the same number for each API and version."""
    return [fresh_request(chance, key, version) for key, version in served for _ in range(requests_each)]


def fresh_request(chance: Random, api_key: int, version: int) -> bytes:
    request = arbitrary(request_class(api_key), version, chance)
    _ground(request, version, chance)
    return encode_request(request, version)


def with_real_ids(frame: bytes, topic_ids: Mapping[str, bytes]) -> bytes:
    for name, placeholder in zip(TOPICS, PLACEHOLDER_IDS, strict=True):
        if placeholder in frame and name in topic_ids:
            frame = frame.replace(placeholder, topic_ids[name])
    return frame


def spoiled_batch(chance: Random) -> bytes:
    """A record batch that is whole, wrong in its header, or damaged anywhere; half the time under a CRC that holds."""
    records = [
        Record(
            value=chance.choice((None, b"", chance.randbytes(chance.choice((1, 50, 700))))),
            key=chance.choice((None, b"key")),
            timestamp=chance.choice((1_700_000_000_000, -1, 0, 2**62)),
            headers=chance.choice(((), (("h", b"1"),), (("h", None),))),
        )
        for _ in range(chance.choice((1, 1, 2, 10)))
    ]
    producer = chance.choice(((-1, -1, -1), (chance.randrange(4), 0, chance.randrange(5))))
    changed: dict[str, Any] = {}
    for name in chance.sample(sorted(_BATCH_FIELDS), chance.choice((0, 0, 1, 1, 2))):
        changed[name] = chance.choice(_BATCH_FIELDS[name])
    batch = encode_batch(records, compression=chance.choice(list(Compression)), producer=producer, **changed)
    for _ in range(chance.choice((0, 0, 1, 3))):
        batch[chance.randrange(len(batch))] ^= 1 << chance.randrange(8)
    if chance.random() < 0.1:
        del batch[chance.randrange(len(batch)) :]
    if chance.random() < 0.05:
        batch += bytes(batch)
    if len(batch) >= HEADER_BYTES and chance.random() < 0.5:
        struct.pack_into(">I", batch, CRC_START - 4, crc32c(bytes(batch[CRC_START:])))
    return bytes(batch)


def _one_of(*choices: Any) -> Choice:
    return lambda chance: chance.choice(choices)


def _string_value(chance: Random) -> str | None:
    return chance.choice(("", "1", "-1", "0", "1000", "compact", "delete,compact", "gzip", "true", "1e3", None))


_TOPIC_NAME: Final = _one_of(*TOPICS, *TOPICS, "fuzzed-new", "fuzzed.new", "not there", "", "..", "ä", "a" * 250)
_INDEX: Final = _one_of(0, 0, 0, 1, 2, 3, -1)
_EPOCH: Final = _one_of(-1, -1, 0, 1)
_GROUP: Final = _one_of("fuzzed-group", "fuzzed-group", "fuzzed-other-group", "")
_LONGS: Final = (-1, -1, 0, 100, 2**63 - 1, -(2**63))

# What a field of this name is set to, whichever message it is in.
_GROUNDED: Final[Mapping[str, Choice]] = {
    "topic": _TOPIC_NAME,
    "topic_name": _TOPIC_NAME,
    "resource_name": _one_of(*TOPICS, "1", "", "0"),
    "topic_id": _one_of(*PLACEHOLDER_IDS, bytes(16)),
    "partition": _INDEX,
    "partition_index": _INDEX,
    "index": _INDEX,
    "acks": _one_of(1, 1, 1, -1, -1, 0, 2, -2),
    "transactional_id": _one_of(None, None, None, "t"),
    "records": lambda chance: spoiled_batch(chance) if chance.random() < 0.95 else None,
    "max_wait_ms": _one_of(0, 0, 0, 1, 5, -1),
    "min_bytes": _one_of(0, 1, 100, 2**31 - 1, -1),
    "max_bytes": _one_of(0, 1, 1000, 2**31 - 1, -1),
    "partition_max_bytes": _one_of(0, 1, 100, 1 << 20, -1),
    "session_id": _one_of(0, 0, 1, -1),
    "session_epoch": _one_of(-1, -1, 0, 0, 1, 2**31 - 1),
    "fetch_offset": _one_of(0, 0, 1, 2, 10, -1, 2**63 - 1),
    "offset": _one_of(0, 1, 3, -1, -2, 2**63 - 1),
    "timestamp": _one_of(-1, -2, -3, -4, -5, -6, -7, 0, 1_700_000_000_000, 2**63 - 1),
    "current_leader_epoch": _EPOCH,
    "leader_epoch": _EPOCH,
    "last_fetched_epoch": _EPOCH,
    "isolation_level": _one_of(0, 1, 2),
    "num_partitions": _one_of(-1, 1, 2, 0, -2),
    "replication_factor": _one_of(-1, 1, 1, 2, 0),
    "assignments": _one_of([], []),
    "broker_ids": _one_of([1], [1], [], [1, 1], [2]),
    "count": _one_of(1, 2, 3, 4, 5, 0, -1),
    "key_type": _one_of(0, 0, 1, 2, 3),
    "resource_type": _one_of(2, 2, 2, 4, 4, 8, 16, 32, 0, 3),
    "config_operation": _one_of(0, 0, 1, 2, 3, 4),
    "configuration_keys": _one_of(None, [], ["retention.ms"], ["nothing"]),
    "client_software_name": _one_of("fuzz", "fuzz", "", "-"),
    "client_software_version": _one_of("1.0", "1.0", "", "é"),
    "endpoint_type": _one_of(1, 1, 2, 3),
    "response_partition_limit": _one_of(2000, 1, 0, -1),
    "group_id": _GROUP,
    "generation_id": _EPOCH,
    "generation_id_or_member_epoch": _EPOCH,
    "member_id": _one_of("", "", "", "somebody"),
    "group_instance_id": _one_of(None, None, None, "instance"),
    "retention_time_ms": _one_of(*_LONGS),
    "committed_offset": _one_of(*_LONGS),
    "producer_id": _one_of(0, 1, 2, 3, -1, 2**63 - 1),
    "producer_epoch": _one_of(0, 0, 1, -1, 32766, 32767),
}
_GROUNDED_SHARE: Final = 0.85


def _ground(struct_: Struct, version: int, chance: Random) -> None:
    for name, field in type(struct_).FIELDS.items():
        if not field.exists_in(version):
            continue
        value = getattr(struct_, name)
        if isinstance(value, Struct):
            _ground(value, version, chance)
        elif isinstance(value, list) and value and isinstance(value[0], Struct):
            for element in value:
                _ground(element, version, chance)
        choice = _GROUNDED.get(name)
        if choice is not None and chance.random() < _GROUNDED_SHARE and not _is_struct_array(value, field):
            value = choice(chance)
            if value is not None or field.nullable_in(version):
                setattr(struct_, name, value)
    _ground_name_and_value(struct_, version, chance)


def _is_struct_array(value: object, field: Any) -> bool:
    """Some names stand for numbers in one message and for structs in another."""
    return field.is_array and isinstance(value, list) and bool(value) and isinstance(value[0], Struct)


def _ground_name_and_value(struct_: Struct, version: int, chance: Random) -> None:
    """`name` is a topic's, or a setting's where a `value` stands beside it."""
    fields: Any = type(struct_).FIELDS
    if "topic_names" in fields and fields["topic_names"].exists_in(version):
        struct_.topic_names = [_TOPIC_NAME(chance) for _ in range(chance.choice((0, 1, 2)))]  # type: ignore[attr-defined]
    if "name" not in fields or not fields["name"].exists_in(version) or chance.random() > _GROUNDED_SHARE:
        return
    if "value" in fields:
        struct_.name = chance.choice(_CONFIG_NAMES)  # type: ignore[attr-defined]
        struct_.value = _string_value(chance)  # type: ignore[attr-defined]
    else:
        struct_.name = _TOPIC_NAME(chance)  # type: ignore[attr-defined]


def extremes(chance: Random) -> bytes:
    """An integer of some width with a value that lengths and counts break on."""
    value = chance.choice(_EXTREMES)
    match chance.randrange(4):
        case 0:
            return struct.pack(">h", max(-(2**15), min(2**15 - 1, value)))
        case 1:
            return struct.pack(">i", value)
        case 2:
            return struct.pack(">q", value << 31)
        case _:
            return bytes(chance.choice(_VARINTS))


_VARINTS: Final[Sequence[bytes]] = (
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x07",
    b"\x80\x80\x80\x80\x08",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x80\x00",
    b"\x80",
)
