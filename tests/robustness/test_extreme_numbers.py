"""Every number of every request at the ends of its range, one at a time, in a request that is otherwise good.

Fuzzing spoils at random, and seldom leaves a request good enough to reach the place where a sum of two numbers no
longer fits into a field. Here the rest of the request is good. What must hold is what holds for fuzzed frames: each
gets its own answer (an error code is one), and the broker prints nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from penstock.protocol.codec import request_class
from penstock.protocol.definitions.init_producer_id import InitProducerIdRequest
from penstock.protocol.schema import BOOL, INT8, INT16, INT32, INT64, Primitive, Struct
from penstock.testing import Broker
from tests.integration.broker.conversation import create_topic
from tests.record_batches import Record, encode_batch
from tests.robustness.fuzz_bursts import Burst, Outcome, judged
from tests.robustness.fuzz_connections import FuzzedConnection
from tests.robustness.fuzz_corpus import SERVED
from tests.robustness.printed_lines import unexpected_lines
from tests.wire_client import WireClient, encode_request

API_KEYS: Final = sorted({key for key, _ in SERVED})
INTEGERS: Final = (INT8, INT16, INT32, INT64)
# What makes a request a good one, whichever message the field is in. Other fields have their defaults, and arrays have
# one element. Topics, groups and producers are each API's own.
GOOD: Final[dict[str, Any]] = {
    "acks": -1,
    "records": bytes(encode_batch([Record(b"value")])),
    "resource_type": 2,
    "generation_id": -1,
    "generation_id_or_member_epoch": -1,
    "retention_time_ms": -1,
    "session_timeout_ms": 10_000,
    "rebalance_timeout_ms": 10_000,
    "transaction_timeout_ms": 10_000,
    "protocol_type": "consumer",
    "num_partitions": 1,
    "replication_factor": 1,
    "count": 2,
    "broker_ids": 1,
    "validate_only": True,
    "client_software_name": "client",
    "client_software_version": "1",
    "current_leader_epoch": -1,
    "last_fetched_epoch": -1,
    "replica_id": -1,
    "session_epoch": -1,
    "max_bytes": 1 << 20,
    "partition_max_bytes": 1 << 20,
}
GROUP_NAMES: Final = ("group_id", "group_ids", "groups", "key", "coordinator_keys")
TOPIC_NAMES: Final = ("name", "topic", "topic_name", "topic_names", "resource_name", "subscribed_topic_names")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running
        printed = unexpected_lines(running)
        assert not printed, "\n".join(printed)


@pytest.mark.parametrize("api_key", API_KEYS, ids=lambda key: request_class(key).__name__)
def test_numbers_at_the_ends_of_their_range_are_answered(broker: Broker, api_key: int) -> None:
    cls = request_class(api_key)
    own_name = f"extremes-of-{cls.__name__}"
    with WireClient(broker.bootstrap_servers) as client:
        topic = create_topic(client, own_name)
        asked = InitProducerIdRequest(transactional_id=own_name, transaction_timeout_ms=60_000)
        producer = client.ask(asked, 4)
    good = GOOD | dict.fromkeys((*TOPIC_NAMES, *GROUP_NAMES), own_name) | {"topic_id": topic.topic_id}
    good |= {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
    if cls.__name__ != "ProduceRequest":
        good |= dict.fromkeys(("transactional_id", "v3_and_below_transactional_id"), own_name)
    connection = FuzzedConnection(broker.bootstrap_servers)
    try:
        for version in [version for key, version in SERVED if key == api_key]:
            request = filled(cls, version, good)
            for number, description in enumerate(spoiled(request, version)):
                frame = judged(encode_request(request, version, number), is_spoiled=True)
                assert frame is not None, description
                assert frame.outcome is not Outcome.CLOSED, description
                is_answered = frame.outcome is Outcome.ANSWERED
                burst = Burst(number, [frame] if is_answered else [], None if is_answered else frame)
                try:
                    connection.begin(burst)
                    connection.finish()
                except Exception as failure:
                    raise AssertionError(f"version {version}, {description}; {broker.stderr_text()}") from failure
    finally:
        connection.close()


def filled(cls: type[Struct], version: int, good: dict[str, Any]) -> Any:
    """A request whose fields have good values as far as these are known, and one element in every array."""
    values: dict[str, Any] = {}
    for name, field in cls.FIELDS.items():
        if not field.exists_in(version):
            continue
        if isinstance(field.kind, Primitive):
            default = field.kind.zero if field.is_array or not isinstance(field.default, int) else field.default
            value = good.get(name, default)
        else:
            value = filled(field.kind, version, good)
        values[name] = [value] if field.is_array else value
    return cls(**values)


def spoiled(struct: Struct, version: int) -> Iterator[str]:
    """Sets each number to each end of its range, one after the other, and back; says what is set."""
    yield "nothing spoiled"
    for name, ends, put in numbers_of(struct, version):
        for end in ends:
            before = put(end)
            yield f"{name} = {end}"
            put(before)


def numbers_of(struct: Struct, version: int) -> Iterator[tuple[str, tuple[int, ...], Callable[[Any], Any]]]:
    for name, field in type(struct).FIELDS.items():
        if not field.exists_in(version) or field.kind is BOOL:
            continue
        value = getattr(struct, name)
        if not isinstance(field.kind, Primitive):
            for inner in value if field.is_array else [value]:
                yield from numbers_of(inner, version)
        elif field.kind in INTEGERS:
            half = 2 ** (8 * field.kind.size - 1)
            yield name, (-half, -2, 0, half - 1), _putter(struct, name, is_array=field.is_array)


def _putter(struct: Struct, name: str, *, is_array: bool) -> Callable[[Any], Any]:
    def put(value: Any) -> Any:
        """Puts a value in and gives the one that was there."""
        before = getattr(struct, name)
        setattr(struct, name, [value] if is_array and not isinstance(value, list) else value)
        return before

    return put
