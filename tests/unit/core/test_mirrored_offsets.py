from __future__ import annotations

import pytest

from penstock.core.mirrored_offsets import MirroredFrom, mirrored_from


@pytest.mark.parametrize("mark", [MirroredFrom("store", "sqlite:////x/ü.db"), MirroredFrom("checkpoint", "/data/c")])
def test_a_mark_is_found_in_the_metadata_of_an_offset(mark: MirroredFrom) -> None:
    assert mirrored_from(["", "text", mark.to_metadata()]) == mark


@pytest.mark.parametrize("metadata", ["", "text", "{", "{}", '{"penstock.positions": "moon"}', '{"batch": 3}', "[1]"])
def test_metadata_of_other_clients_is_no_mark(metadata: str) -> None:
    assert mirrored_from([metadata]) is None


def test_a_long_place_does_not_exceed_the_brokers_limit() -> None:
    mark = MirroredFrom("checkpoint", "/" + "x" * 5000)
    assert len(mark.to_metadata()) < 4096
    assert mirrored_from([mark.to_metadata()]) == MirroredFrom("checkpoint", "")


def test_the_ledger_of_a_sink_is_recognised() -> None:
    from penstock.pipeline.topics.batch_ledger import LedgerEntry

    assert mirrored_from([LedgerEntry("o", "q", 3, "a").to_offset().metadata]) == MirroredFrom("ledger", "")
