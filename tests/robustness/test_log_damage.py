"""Damage on disk: whatever happens to the files of a log, no wrong byte is ever served as a good one.

Every trial opens a log whose files were changed behind its back, reads all of it, and compares each batch that was
served with what was written. A batch that is missing must have been reported.
"""

from __future__ import annotations

import os
from random import Random

import pytest

from penstock.log.config import LogConfig
from penstock.log.damage import Damage
from penstock.log.partition_log import PartitionLog
from penstock.log.transaction_index import AbortedTransaction
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.protocol.record_batch import parse_header
from tests.memory_filesystem import MemoryFileSystem
from tests.unit.log.stored_batches import NOW_MS, append, make_batch, make_marker, open_log, split

DIRECTORY = "data/topic-0"
FLIPS = 10_000
FLIPS_PER_TEST = 1_000
CONFIG = LogConfig(segment_bytes=4_000, index_interval_bytes=300)

Written = dict[int, bytes]


def write_log(fs: MemoryFileSystem, config: LogConfig, batches: int, seed: int) -> tuple[PartitionLog, Written]:
    """Batches and transactions of two producers and three leader epochs, over several segments."""
    random = Random(seed)
    log = open_log(fs, DIRECTORY, config)
    written: Written = {}
    sequences = {7: 0, 8: 0}
    for number in range(batches):
        count = random.randrange(1, 5)
        producer_id = random.choice([-1, 7, 8])
        producer = (producer_id, 0, sequences[producer_id]) if producer_id >= 0 else (-1, -1, -1)
        if producer_id >= 0:
            sequences[producer_id] += count
        payload = random.randbytes(random.randrange(20, 400))
        timestamp = NOW_MS + random.randrange(10) + 5 * number
        if producer_id >= 0 and random.random() < 0.3:
            sequences[producer_id] -= count
            batch = make_marker(producer_id, 0, committed=random.random() < 0.3)
        else:
            batch = make_batch(payload, count, timestamp, producer, transactional=producer_id >= 0)
        base_offset, content = append(log, batch, leader_epoch=3 * number // batches)
        written[base_offset] = content
        if number == batches // 2:
            log.flush()
    return log, written


def consume(log: PartitionLog, written: Written, random: Random) -> tuple[set[int], bool]:
    """Reads everything, as a consumer that steps over what cannot be read. Returns what was served, and any refusal."""
    served: set[int] = set()
    refused = False
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        try:
            content = log.read(offset, random.choice([1, 500, 3_000, 1 << 20]), log.log_end_offset).read()
        except BrokerError as error:
            if error.code != ErrorCode.CORRUPT_MESSAGE:
                raise
            refused = True
            offset += 1
            continue
        batches = split(content)
        assert batches, "a read below the log end gave nothing and no error"
        assert parse_header(batches[0]).base_offset <= offset, "a read skipped the offset that it was asked for"
        for batch in batches:
            header = parse_header(batch)
            assert written.get(header.base_offset) == batch, f"corrupt bytes served at {header.base_offset}"
            served.add(header.base_offset)
            offset = header.end_offset
    return served, refused


def look_up(log: PartitionLog, written: Written, random: Random) -> None:
    """Lookups by time may fail on damage; what they find is what was written."""
    for timestamp in (NOW_MS, NOW_MS + random.randrange(300)):
        found = log.offset_for_timestamp(timestamp)
        if found is not None:
            assert found.first_batch is not None
            assert found.read() == written[found.first_batch.base_offset]
    try:
        newest = log.max_timestamp()
    except BrokerError as error:
        if error.code != ErrorCode.CORRUPT_MESSAGE:
            raise
        return
    if newest is not None:
        assert newest.first_batch is not None
        assert newest.read() == written[newest.first_batch.base_offset]


def transactions_of(log: PartitionLog) -> tuple[int | None, list[AbortedTransaction]]:
    return log.first_unstable_offset, log.aborted_transactions(0, log.log_end_offset)


def flip(fs: MemoryFileSystem, random: Random) -> str:
    names = fs.list_directory(DIRECTORY)
    kinds = [".log", ".log", ".log", ".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint"]
    kind = random.choice([*kinds, ".txnindex", "transaction-index-checkpoint"])
    path = f"{DIRECTORY}/{random.choice([name for name in names if name.endswith(kind)])}"
    content = bytearray(fs.read_file(path))
    if not content:
        return path
    at = random.randrange(len(content))
    bit = random.randrange(8)
    content[at] ^= 1 << bit
    fs.put(path, bytes(content))
    return f"{path} byte {at} bit {bit}"


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("seed", range(FLIPS // FLIPS_PER_TEST // 2))
def test_no_flipped_bit_is_served(seed: int, closed: bool) -> None:
    random = Random(seed)
    fs = MemoryFileSystem()
    log, written = write_log(fs, CONFIG, 60, seed)
    recovery_point, log_end_offset = log.recovery_point, log.log_end_offset
    transactions = transactions_of(log)
    if closed:
        log.close()
        recovery_point = log_end_offset
    for trial in range(FLIPS_PER_TEST):
        harmed = fs.copy()
        flips = [flip(harmed, random) for _ in range(random.choice([1, 1, 1, 2, 3]))]
        damage: list[Damage] = []
        try:
            log = open_log(harmed, DIRECTORY, CONFIG, clean=closed, recovery_point=recovery_point, damage=damage)
            if not any(".log" in flip or "leader-epoch" in flip for flip in flips):
                assert transactions_of(log) == transactions, "the log is whole, so all that is derived from it is"
            served, refused = consume(log, written, random)
            look_up(log, written, random)
            assert served == set(written) or damage, "batches are missing and nothing was reported"
            assert not refused or damage, "a read was refused and nothing was reported"
            if trial % 5 == 0:
                check_goes_on(harmed, log, written, served, random)
        except Exception as error:
            error.add_note(f"seed {seed}, trial {trial}, closed {closed}, flips {flips}, damage {damage}")
            raise


def check_goes_on(fs: MemoryFileSystem, log: PartitionLog, written: Written, served: set[int], random: Random) -> None:
    """A damaged log takes new batches, and after another restart serves them and all that it served before."""
    more = dict(written)
    added = set()
    for _ in range(3):
        base_offset, content = append(log, make_batch(random.randbytes(50), 2, NOW_MS + 1000), leader_epoch=3)
        more[base_offset] = content
        added.add(base_offset)
    log.close()
    damage: list[Damage] = []
    again = open_log(fs, DIRECTORY, CONFIG, recovery_point=log.log_end_offset, damage=damage)
    assert again.log_end_offset == log.log_end_offset
    served_again, _ = consume(again, more, random)
    assert served_again >= served | added


@pytest.mark.slow
def test_a_log_cut_at_every_byte_opens_with_the_whole_batches_before_the_cut() -> None:
    cut_bytes = 64 << 10
    config = LogConfig(segment_bytes=cut_bytes + 20_000)
    fs = MemoryFileSystem()
    random = Random(1)
    log = open_log(fs, DIRECTORY, config)
    ends: list[tuple[int, int]] = [(0, 0)]  # position and offset behind each batch of the last segment
    while log.segment_base_offsets[-1] == 0 or ends[-1][0] < cut_bytes:
        base_offset, content = append(log, make_batch(random.randbytes(random.randrange(1_500, 3_000)), 3))
        if log.segment_base_offsets[-1] == base_offset:
            ends = [(0, base_offset)]
        ends.append((ends[-1][0] + len(content), base_offset + 3))
    log.close()
    recovery_point = log.segment_base_offsets[-1]
    path = f"{DIRECTORY}/{recovery_point:020d}.log"
    content = fs.read_file(path)
    whole = ends.copy()
    for cut in range(len(content) - 1, len(content) - cut_bytes - 1, -1):
        while whole[-1][0] > cut:
            whole.pop()
        fs.put(path, content[:cut])
        damage: list[Damage] = []
        log = open_log(fs, DIRECTORY, config, clean=False, recovery_point=recovery_point, damage=damage)
        good_end, end_offset = whole[-1]
        assert log.log_end_offset == end_offset
        assert fs.size(path) == good_end
        assert [d.length for d in damage] == ([cut - good_end] if cut > good_end else [])
        if cut % 997 == 0:
            assert log.read(recovery_point, 1 << 20, end_offset).read() == content[:good_end]


@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
def test_a_flushed_log_that_was_cut_ends_with_its_last_whole_batch_and_says_so(clean: bool) -> None:
    fs = MemoryFileSystem()
    log = open_log(fs, DIRECTORY)
    contents = [append(log, make_batch(bytes([number]) * 40, 2))[1] for number in range(8)]
    log.close()
    path = f"{DIRECTORY}/{0:020d}.log"
    content = fs.read_file(path)
    for cut in range(len(content)):
        fs.put(path, content[:cut])
        damage: list[Damage] = []
        whole = cut // len(contents[0])
        log = open_log(fs, DIRECTORY, clean=clean, recovery_point=16, damage=damage)
        assert log.log_end_offset == 2 * whole
        assert log.read(0, 1 << 20, log.log_end_offset).read() == b"".join(contents[:whole])
        assert damage
        assert append(log, make_batch(b"more"))[0] == 2 * whole
        assert log.read(2 * whole, 1 << 20, log.log_end_offset).size > 0


@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("harmed", [(3, 4), (6, 7)], ids=["in the middle", "at the end"])
def test_a_batch_behind_a_damaged_one_is_not_believed_without_a_witness(harmed: tuple[int, int], clean: bool) -> None:
    """The first one's records and the second one's base offset are wrong: nothing tells what the second one's were."""
    fs = MemoryFileSystem()
    log = open_log(fs, DIRECTORY)
    written = dict(append(log, make_batch(bytes([number]) * 40)) for number in range(8))
    log.close()
    path = f"{DIRECTORY}/{0:020d}.log"
    content = bytearray(fs.read_file(path))
    size = len(content) // 8
    content[harmed[0] * size + 70] ^= 1
    content[harmed[1] * size + 6] ^= 1
    fs.put(path, bytes(content))
    damage: list[Damage] = []
    log = open_log(fs, DIRECTORY, clean=clean, recovery_point=8 if clean else 0, damage=damage)
    served, _ = consume(log, written, Random(0))
    assert served == set(written) - set(harmed)
    assert damage
    assert fs.read_file(path) == content, "batches that are whole are not cut off"


def test_a_batch_inside_the_records_of_a_torn_one_is_not_taken_for_its_successor() -> None:
    fs = MemoryFileSystem()
    log = open_log(fs, DIRECTORY)
    first = append(log, make_batch(b"first"))[1]
    embedded = make_batch(b"embedded")[0]
    embedded[:8] = (2).to_bytes(8, "big")
    append(log, make_batch(b"begin" + bytes(embedded) + os.urandom(100)))
    path = f"{DIRECTORY}/{0:020d}.log"
    torn = fs.read_file(path)[:-50]
    fs = MemoryFileSystem()
    fs.put(path, torn)
    damage: list[Damage] = []
    log = open_log(fs, DIRECTORY, clean=False, damage=damage)
    assert log.read(0, 1 << 20, log.log_end_offset).read() == first
    assert [d.removed for d in damage] == [True]
