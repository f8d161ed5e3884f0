from __future__ import annotations

import pytest

from penstock.core.ids import uuid_bytes, uuid_text


def test_an_id_is_written_as_kafka_writes_it() -> None:
    raw = bytes.fromhex("0123456789abcdeffedcba9876543210")
    assert uuid_text(raw) == "ASNFZ4mrze_-3LqYdlQyEA"
    assert uuid_bytes("ASNFZ4mrze_-3LqYdlQyEA") == raw


@pytest.mark.parametrize("raw", [bytes(16), b"\xff" * 16, bytes(range(16))])
def test_ids_round_trip(raw: bytes) -> None:
    assert uuid_bytes(uuid_text(raw)) == raw


@pytest.mark.parametrize(
    "text",
    ["", "AAAA", "A" * 23, "ASNFZ4mrze/+3LqYdlQyEA", "ASNFZ4mrze_-3LqYdlQyE\u00e9", "ASNFZ4mrze_-3LqYdlQyEB", "!" * 22],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="128-bit id"):
        uuid_bytes(text)
