"""A slice of `make compaction`, and its judge."""

from __future__ import annotations

import pytest

from tests.robustness.compaction_soak import compact_under_kills, differences


@pytest.mark.slow
def test_the_last_value_of_every_key_survives_kills_of_its_cleaning(capsys: pytest.CaptureFixture[str]) -> None:
    report = compact_under_kills(kills=8, seed=20_261_116)

    with capsys.disabled():
        print("\n" + "\n".join(report.lines()))
    assert report.holds, "\n".join(report.lines())
    # Kills hit cleanings, and little was left of the log, or the above would prove nothing.
    assert report.shows_something, "\n".join(report.lines())


def test_the_judge_sees_old_values_lost_keys_and_keys_that_come_back() -> None:
    expected = {"old": 2, "lost": 3, "deleted": None, "back": None, "kept": 4, "doubtful": 5}
    final = {"old": 1, "back": 6, "kept": 4, "doubtful": 7}
    assert differences(final, expected, {"doubtful"}) == [
        "back is 6, and was last set to None",
        "lost is None, and was last set to 3",
        "old is 1, and was last set to 2",
    ]
