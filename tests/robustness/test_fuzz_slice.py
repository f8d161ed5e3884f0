"""A slice of `make fuzz`: spoiled frames against a real broker, and bytes of all kinds against the codec in process.

What hypothesis finds it shrinks to the smallest bytes that still fail, and prints.
"""

from __future__ import annotations

import struct
import time
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.testing import Broker
from tests.robustness.codec_targets import read_frames, read_request, validate_batch
from tests.robustness.fuzz_bursts import BurstMaker, Outcome
from tests.robustness.fuzz_connections import BurstFailure, StrangersConnection
from tests.robustness.fuzz_corpus import SERVED, corpus_of, fresh_request, spoiled_batch
from tests.robustness.fuzz_frames import Role, fuzz
from tests.robustness.fuzz_mutations import mutated

FRAMES = 20_000
EXAMPLES = 300

seeds = st.integers(0, 2**64 - 1)
CORPUS = corpus_of(Random(0), 1)


@pytest.mark.slow
def test_spoiled_frames_against_a_broker() -> None:
    seed = time.time_ns() % 2**32
    print(f"--seed {seed}")
    fuzzing, _ = fuzz(seed=seed, frames=FRAMES)
    assert fuzzing.tally.spoiled >= FRAMES
    # A slice in which one kind of outcome is missing would not show what it is meant to show.
    assert min(fuzzing.tally.outcomes[outcome.value] for outcome in Outcome) > 0
    assert fuzzing.tally.outcomes[Outcome.ANSWERED.value] > FRAMES / 4


@pytest.mark.slow
@pytest.mark.parametrize("role", [Role.USER, Role.STRANGER])
def test_spoiled_frames_before_and_after_authentication(role: Role) -> None:
    seed = time.time_ns() % 2**32
    print(f"--seed {seed} --as {role}")
    fuzzing, _ = fuzz(seed=seed, frames=FRAMES // 2, role=role)
    assert fuzzing.tally.spoiled >= FRAMES // 2


def test_a_stranger_who_is_answered_fails_the_run() -> None:
    with Broker() as broker:  # whose listener has no authentication
        connection = StrangersConnection(broker.bootstrap_servers)

        def send(bursts: int) -> None:
            maker = BurstMaker(1)
            for number in range(bursts):
                connection.begin(maker.make(number))
                connection.finish()

        with pytest.raises(BurstFailure, match="a stranger was answered"):
            send(100)
        connection.close()


def test_a_seed_and_a_number_always_make_the_same_burst() -> None:
    one, other = BurstMaker(5), BurstMaker(5)
    other.make(3)
    assert [one.make(number).bytes for number in range(50)] == [other.make(number).bytes for number in range(50)]
    assert one.make(7).bytes != BurstMaker(6).make(7).bytes


def test_the_bursts_reach_every_api_and_version() -> None:
    maker = BurstMaker(1)
    frames = [frame for number in range(3000) for frame in maker.make(number).frames]
    handled = (Outcome.ANSWERED, Outcome.PARKED)
    assert {(frame.api_key, frame.version) for frame in frames if frame.outcome in handled} == set(SERVED)


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.sampled_from(SERVED), st.binary(max_size=300))
def test_any_bytes_as_a_request(served: tuple[int, int], body: bytes) -> None:
    api_key, version = served
    read_request(struct.pack(">hhih", api_key, version, 1, -1) + body)


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.sampled_from(SERVED), seeds)
def test_spoiled_requests(served: tuple[int, int], seed: int) -> None:
    chance = Random(seed)
    request = fresh_request(chance, *served)
    read_request(request)
    for _ in range(5):
        read_request(mutated(request, chance, CORPUS))


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(st.binary(max_size=200), max_size=8), st.binary(max_size=10))
def test_any_stream_of_frames(contents: list[bytes], rest: bytes) -> None:
    read_frames(b"".join(struct.pack(">i", len(content)) + content for content in contents) + rest)


@settings(max_examples=EXAMPLES, deadline=None)
@given(seeds, st.booleans())
def test_spoiled_batches(seed: int, hold_crc: bool) -> None:
    validate_batch(spoiled_batch(Random(seed)), hold_crc=hold_crc)


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_as_a_batch(content: bytes, hold_crc: bool) -> None:
    validate_batch(content, hold_crc=hold_crc)
