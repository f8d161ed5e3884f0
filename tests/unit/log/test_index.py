from __future__ import annotations

from penstock.log.index import OffsetIndex, TimeIndex


def test_offset_entries_are_eight_bytes_big_endian() -> None:
    index = OffsetIndex()
    index.append(5, 0x01020304)
    index.append(0x7FFFFFFF, 0xFFFFFFFE)
    assert index.encode().hex() == "00000005010203047ffffffffffffffe"
    again = OffsetIndex.decode(index.encode(), 0xFFFFFFFF)
    assert again is not None
    assert (again.offsets, again.positions) == (index.offsets, index.positions)


def test_time_entries_are_twelve_bytes_big_endian() -> None:
    index = TimeIndex()
    index.append_if_newer(0x0102030405060708, 9)
    index.append_if_newer(0x0102030405060709, 0x7FFFFFFF)
    assert index.encode().hex() == "01020304050607080000000901020304050607097fffffff"
    again = TimeIndex.decode(index.encode())
    assert again is not None
    assert (again.timestamps, again.offsets) == (index.timestamps, index.offsets)


def test_lookups_find_the_last_entry_that_is_not_above() -> None:
    index = OffsetIndex()
    for offset in (10, 20, 30):
        index.append(offset, offset * 100)
    assert [index.last_at_or_before(offset) for offset in (0, 9, 10, 19, 20, 30, 99)] == [-1, -1, 0, 0, 1, 2, 2]
    times = TimeIndex()
    for timestamp in (10, 20, 30):
        times.append_if_newer(timestamp, timestamp)
    assert [times.last_before(timestamp) for timestamp in (10, 11, 20, 30, 31)] == [-1, 0, 0, 1, 2]


def test_a_time_entry_that_is_not_newer_is_left_out() -> None:
    index = TimeIndex()
    for timestamp in (5, 5, 4, 6):
        index.append_if_newer(timestamp, timestamp)
    assert list(index.timestamps) == [5, 6]


def test_bytes_that_cannot_be_an_index_are_refused() -> None:
    index = OffsetIndex()
    index.append(10, 100)
    index.append(20, 200)
    good = index.encode()
    assert OffsetIndex.decode(good, 201) is not None
    assert OffsetIndex.decode(good, 200) is None, "it points behind the log"
    assert OffsetIndex.decode(good[:-1], 201) is None
    assert OffsetIndex.decode(good[8:] + good[:8], 201) is None, "it goes backwards"
    assert OffsetIndex.decode(good + bytes(8), 201) is None, "it ends in zeros"
    times = TimeIndex()
    times.append_if_newer(10, 1)
    times.append_if_newer(20, 2)
    good = times.encode()
    assert TimeIndex.decode(good[:-1]) is None
    assert TimeIndex.decode(good[12:] + good[:12]) is None
    assert OffsetIndex.decode(b"", 0) is not None
    assert TimeIndex.decode(b"") is not None
