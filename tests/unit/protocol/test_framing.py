"""FrameBuffer: the same frames for any sequence of reads, and memory that follows the bytes that have arrived."""

from __future__ import annotations

import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import ProtocolError
from penstock.protocol.framing import BufferPool, FrameBuffer


def framed(*payloads: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(payload)) + payload for payload in payloads)


def feed(frames: FrameBuffer, stream: bytes, read_bytes: int) -> list[bytes]:
    """Lets `stream` arrive in reads of at most `read_bytes`."""
    taken, position = [], 0
    while position < len(stream):
        room = frames.get_buffer()
        count = min(len(room), read_bytes, len(stream) - position)
        assert count > 0
        room[:count] = stream[position : position + count]
        frames.advance(count)
        position += count
        while (frame := frames.next_frame()) is not None:
            taken.append(bytes(frame))
    return taken


@given(
    payloads=st.lists(st.binary(max_size=300), max_size=12),
    read_bytes=st.integers(1, 200),
    initial_bytes=st.integers(4, 64),
)
def test_frames_do_not_depend_on_how_the_bytes_arrive(
    payloads: list[bytes], read_bytes: int, initial_bytes: int
) -> None:
    frames = FrameBuffer(pool=BufferPool(initial_bytes), retained_bytes_max=100)
    assert feed(frames, framed(*payloads), read_bytes) == payloads
    assert frames.pending == 0
    frames.get_buffer()
    assert frames.capacity <= max(100, initial_bytes)


def test_frames_of_one_read_are_views_of_the_same_memory() -> None:
    frames = FrameBuffer(pool=BufferPool(64))
    room = frames.get_buffer()
    room[:14] = framed(b"abc", b"def")
    frames.advance(14)
    first, second = frames.next_frame(), frames.next_frame()
    assert first is not None
    assert second is not None
    first[0] = ord("A")
    assert bytes(room[:14]) == framed(b"Abc", b"def")
    assert first.obj is second.obj
    assert not first.readonly


def test_the_largest_frame_passes_and_one_byte_more_does_not() -> None:
    assert feed(FrameBuffer(100), framed(bytes(100)), 1000) == [bytes(100)]
    with pytest.raises(ProtocolError, match="101 bytes"):
        feed(FrameBuffer(100), framed(bytes(101)), 1000)


@pytest.mark.parametrize("size", [-1, -(2**31), 104857601, 2**31 - 1])
def test_impossible_sizes_are_refused_as_soon_as_they_are_known(size: int) -> None:
    frames = FrameBuffer()
    with pytest.raises(ProtocolError):
        feed(frames, struct.pack(">i", size), 4)


def test_an_announced_size_costs_nothing_until_bytes_arrive() -> None:
    tracemalloc.start()
    try:
        frames = FrameBuffer()
        before = tracemalloc.get_traced_memory()[0]
        assert feed(frames, struct.pack(">i", 104857600), 4) == []
        assert feed(frames, bytes(300_000), 65536) == []
        assert tracemalloc.get_traced_memory()[1] - before < 2_000_000
        assert frames.capacity == 512 * 1024
    finally:
        tracemalloc.stop()


def test_the_buffer_never_exceeds_the_frame_that_it_holds() -> None:
    frames = FrameBuffer(pool=BufferPool(1024))
    payload = bytes(1_000_000)
    assert feed(frames, framed(payload), 10_000) == [payload]
    assert frames.capacity == 1_000_004


def test_a_large_buffer_is_given_back_and_a_usual_one_is_kept() -> None:
    frames = FrameBuffer(pool=BufferPool(1024), retained_bytes_max=20_000)
    feed(frames, framed(bytes(10_000)), 4096)
    frames.get_buffer()
    kept = frames.capacity
    assert 10_004 <= kept <= 20_000
    feed(frames, framed(bytes(50_000)), 4096)
    frames.get_buffer()
    assert frames.capacity == 1024


def test_what_is_missing_of_a_frame_is_known_with_its_size() -> None:
    frames = FrameBuffer(100)
    seen = []
    for byte in framed(b"abcdef"):
        frames.get_buffer()[0] = byte
        frames.advance(1)
        seen.append((frames.missing_bytes, frames.has_frame))
    assert seen == [(0, False)] * 3 + [(left, False) for left in range(6, 0, -1)] + [(0, True)]
    assert bytes(frames.next_frame() or b"") == b"abcdef"
    assert not frames.has_frame


@pytest.mark.parametrize("size", [-1, 101])
def test_a_frame_that_cannot_be_is_told_at_once(size: int) -> None:
    frames = FrameBuffer(100)
    frames.get_buffer()[:4] = struct.pack(">i", size)
    frames.advance(4)
    assert frames.has_frame
    assert frames.missing_bytes == 0


def test_the_buffer_of_an_ended_connection_serves_the_next_one() -> None:
    pool = BufferPool(64, count_max=1)
    ended, grown, silent = (FrameBuffer(pool=pool) for _ in range(3))
    assert ended.capacity == 0, "memory is taken when something is received"
    memory = ended.get_buffer().obj
    feed(grown, framed(bytes(100)), 64)
    for frames in (ended, grown, silent):
        frames.release()
    following, another = FrameBuffer(pool=pool), FrameBuffer(pool=pool)
    assert following.get_buffer().obj is memory
    assert another.get_buffer().obj is not memory
    assert feed(following, framed(b"abc"), 64) == [b"abc"], "nothing is left of what the memory held"


def test_a_partial_frame_is_moved_once_however_small_the_reads() -> None:
    """The room starts at the bytes that have arrived; it would move back to the front if they were moved again."""
    frames = FrameBuffer(pool=BufferPool(100))
    stream = framed(bytes(50), bytes(60))
    feed(frames, stream[:90], 90)
    rooms = []
    for byte in stream[90:]:
        room = frames.get_buffer()
        rooms.append(len(room))
        room[0] = byte
        frames.advance(1)
    assert rooms == list(range(64, 64 - len(rooms), -1))
    assert frames.next_frame() is not None


def test_a_read_before_all_frames_are_taken_is_a_bug() -> None:
    frames = FrameBuffer(pool=BufferPool(16))
    room = frames.get_buffer()
    room[:16] = framed(b"abcd", b"efgh")
    frames.advance(16)
    with pytest.raises(AssertionError, match="must be taken"):
        frames.get_buffer()
