"""Codecs as Kafka's clients read them. `test_records.py` and the client tests read batches of every codec."""

from __future__ import annotations

from penstock.protocol.compression import Compression, compress, decompress


def test_the_blocks_of_lz4_are_independent() -> None:
    """Kafka's Java clients refuse other frames ("Dependent block stream is unsupported")."""
    payload = b"payload" * 50_000
    compressed = compress(Compression.LZ4, payload)
    flags, independence = compressed[4], 0x20
    assert flags & independence
    assert bytes(decompress(Compression.LZ4, compressed, 1 << 20)) == payload
