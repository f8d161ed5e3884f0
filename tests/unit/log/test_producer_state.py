from __future__ import annotations

import pytest

from penstock.log.producer_snapshot import decode, encode
from penstock.log.producer_state import ProducerState
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.protocol.record_batch import BatchHeader
from tests.unit.log.stored_batches import NOW_MS, make_batch


def header(sequence: int, count: int = 1, epoch: int = 0, producer_id: int = 7) -> BatchHeader:
    return make_batch(count=count, producer=(producer_id, epoch, sequence))[1]


def write(state: ProducerState, batch: BatchHeader, base_offset: int) -> None:
    assert state.check(batch) is None
    state.stage(batch, base_offset, NOW_MS)
    state.commit()


def refusal(state: ProducerState, batch: BatchHeader) -> ErrorCode:
    with pytest.raises(BrokerError) as refused:
        state.check(batch)
    return refused.value.code


@pytest.fixture
def state() -> ProducerState:
    """Producer 7, epoch 0, has written sequences 0-2 at offset 100, and 3 at 103."""
    state = ProducerState()
    write(state, header(0, 3), 100)
    write(state, header(3), 103)
    return state


def test_the_next_sequence_is_taken_and_a_gap_refused(state: ProducerState) -> None:
    assert state.check(header(4)) is None
    assert refusal(state, header(5)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_retry_gets_the_offset_it_was_given(state: ProducerState) -> None:
    assert state.check(header(0, 3)) == 100
    assert state.check(header(3)) == 103
    assert refusal(state, header(0, 2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_only_the_last_five_batches_are_recognised(state: ProducerState) -> None:
    for sequence in range(4, 8):
        write(state, header(sequence), 100 + sequence)
    assert state.check(header(3)) == 103
    assert refusal(state, header(0, 3)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_unknown_producer_may_begin_anywhere(state: ProducerState) -> None:
    assert state.check(header(17, producer_id=8)) is None


def test_a_new_epoch_begins_with_zero_and_ends_the_old_one(state: ProducerState) -> None:
    assert refusal(state, header(4, epoch=1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    write(state, header(0, epoch=1), 104)
    assert refusal(state, header(4, epoch=0)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert state.check(header(1, epoch=1)) is None


def test_sequences_wrap_around() -> None:
    state = ProducerState()
    write(state, header(2**31 - 2, 4), 0)
    assert state.entries[7].batches[-1].last_sequence == 1
    assert state.check(header(2**31 - 2, 4)) == 0
    assert state.check(header(2)) is None
    assert refusal(state, header(3)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    exactly = ProducerState()
    write(exactly, header(2**31 - 1), 0)
    assert exactly.check(header(0)) is None


def test_staged_batches_count_and_can_be_taken_back(state: ProducerState) -> None:
    before = dict(state.entries)
    state.stage(header(4), 104, NOW_MS)
    state.stage(header(5), 105, NOW_MS)
    state.stage(header(0, producer_id=9), 106, NOW_MS)
    assert state.check(header(4)) == 104
    assert state.check(header(6)) is None
    state.rollback()
    assert state.entries == before
    assert state.check(header(4)) is None


def test_producers_expire_unless_they_have_something_staged(state: ProducerState) -> None:
    state.stage(header(0, producer_id=9), 106, NOW_MS)
    state.remove_expired(NOW_MS + 100, 100)
    assert set(state.entries) == {7, 9}
    state.remove_expired(NOW_MS + 101, 100)
    assert set(state.entries) == {9}
    state.rollback()
    assert not state.entries


def test_a_snapshot_has_kafkas_bytes(state: ProducerState) -> None:
    content = encode(state)
    assert content[:2].hex() == "0001"
    assert content[6:].hex() == (
        "00000002"  # two entries: one for each batch, oldest first
        "0000000000000007"
        "0000"
        "00000002"
        "0000000000000066"
        "00000002"
        "0000018bcfe56800"
        "ffffffff"
        "ffffffffffffffff"
        "0000000000000007"  # producer id
        "0000"  # epoch
        "00000003"  # last sequence
        "0000000000000067"  # last offset
        "00000000"  # offset delta
        "0000018bcfe56800"  # timestamp
        "ffffffff"  # coordinator epoch
        "ffffffffffffffff"  # no transaction
    )


def test_a_snapshot_remembers_all_that_a_producer_may_have_in_flight(state: ProducerState) -> None:
    for sequence in range(4, 10):
        write(state, header(sequence), 100 + sequence)
    again = decode(encode(state))
    assert again is not None
    assert again.entries == state.entries
    assert [again.check(header(sequence)) for sequence in range(5, 10)] == [105, 106, 107, 108, 109]
    assert again.check(header(10)) is None
    assert refusal(again, header(4)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_every_flipped_bit_of_a_snapshot_is_noticed(state: ProducerState) -> None:
    content = encode(state)
    for bit in range(8 * len(content)):
        harmed = bytearray(content)
        harmed[bit // 8] ^= 1 << bit % 8
        assert decode(bytes(harmed)) is None
    for length in range(len(content)):
        assert decode(content[:length]) is None
