from __future__ import annotations

import pytest

from penstock.client.commit_metadata import metadata_of

MARK = '{"keeper": "store", "place": "sqlite:///größe.db"}'


class Partition:
    """Decodes what lies in memory, as confluent-kafka does."""

    def __init__(self, memory: bytes | None) -> None:
        self._memory = memory

    @property
    def metadata(self) -> str | None:
        return None if self._memory is None else self._memory.decode()


@pytest.mark.parametrize("behind", [b"", b"\x85\x01garbage", b'{"keeper"', b" more text", "\u00e9".encode()])
def test_what_lies_behind_a_text_of_ours_is_left_out(behind: bytes) -> None:
    assert metadata_of(Partition(MARK.encode() + behind)) == MARK


@pytest.mark.parametrize("text", ["", "a text of another client", "{ no json"])
def test_other_texts_are_kept(text: str) -> None:
    assert metadata_of(Partition(text.encode())) == text


def test_none_is_no_text() -> None:
    assert metadata_of(Partition(None)) == ""


def test_bytes_that_are_no_text_are_no_failure() -> None:
    assert metadata_of(Partition(b"text\x85")) == "text\ufffd"
