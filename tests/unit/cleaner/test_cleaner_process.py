"""The process that compacts a log: plain Python for small logs, kernels for large ones, and the same result."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from penstock.cleaner.__main__ import _offsets_for
from penstock.columns.key_table import KeyTable
from penstock.log.cleaning.cleaner import CleaningOrder, clean
from penstock.log.cleaning.key_offsets import KeyOffsets
from penstock.log.cleaning.plan import SourceSegment
from penstock.protocol.compression import Compression
from tests.memory_filesystem import MemoryFileSystem
from tests.unit.log.cleaning.compacted_logs import DIRECTORY, compacting, put, seal
from tests.unit.log.stored_batches import NOW_MS, append, make_marker, open_log


def order_of(*sizes: int) -> CleaningOrder:
    segments = tuple(SourceSegment(number, number + 1, size) for number, size in enumerate(sizes))
    return CleaningOrder(DIRECTORY, segments, 0, NOW_MS, 0, 1 << 20, 4096, (), {}, 1000)


def test_kernels_are_for_large_logs() -> None:
    assert _offsets_for(order_of(1 << 20, 30 << 20)) is KeyOffsets
    assert isinstance(_offsets_for(order_of(2 << 20, 30 << 20))(1000), KeyTable)


def test_without_numba_every_log_is_compacted_in_plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "penstock.columns.kernel_compilation", None)
    assert _offsets_for(order_of(1 << 30)) is KeyOffsets


@pytest.mark.parametrize("keys_max", [7, 1000])
def test_both_write_the_same_bytes(keys_max: int) -> None:
    fs = MemoryFileSystem()
    log = open_log(fs, DIRECTORY, compacting(segment_bytes=3000))
    for number in range(200):
        pairs = [
            (f"key {number * each % 23}", None if (number + each) % 5 == 0 else "v" * each) for each in range(1, 6)
        ]
        put(log, *pairs, compression=Compression(number % 5), producer=(number % 2, 0, 5 * (number // 2)))
        if number % 20 == 0:
            put(log, ("t", "x"), producer=(9, 0, number // 20), transactional=True)
            append(log, make_marker(9, 0, committed=number % 40 == 0))
    seal(log)
    cleanable = log.lifecycle.cleanable(
        last_stable_offset=log.log_end_offset, recovery_point=log.recovery_point, now_ms=NOW_MS
    )
    assert cleanable is not None
    order = log.lifecycle.cleaning_order(cleanable, keys_max=keys_max, now_ms=NOW_MS)
    plain, compiled = fs.copy(), fs.copy()
    result = clean(order, plain)
    assert clean(order, compiled, lambda capacity: KeyTable(capacity, os.urandom(32), slots=4)) == result
    assert result.replacements
    assert {name: plain.read_file(f"{DIRECTORY}/{name}") for name in plain.list_directory(DIRECTORY)} == {
        name: compiled.read_file(f"{DIRECTORY}/{name}") for name in compiled.list_directory(DIRECTORY)
    }


def test_it_loads_no_kernels_for_a_small_log() -> None:
    program = "import sys, penstock.cleaner.__main__; print('numba' in sys.modules, 'numpy' in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert printed == "False False\n"
