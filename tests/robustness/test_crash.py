"""A slice of `make crash`: kill -9 under load, fifty times, and the settings that must fail the same harness."""

from __future__ import annotations

import pytest

from tests.robustness.crash_clients import FORGETTING, IDEMPOTENT, REPEATING
from tests.robustness.crash_soak import Report, crash

KILLS = 20
WEAKER_KILLS = 6


@pytest.mark.slow
def test_every_acked_record_is_there_once_and_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    report = crash(IDEMPOTENT, kills=KILLS, seed=20_250_601)

    _show(report, capsys)
    assert report.holds, "\n".join(report.lines())
    # The kills came at moments that matter, or the above would prove nothing.
    assert report.kills_with_unacked >= KILLS // 2
    assert report.kills_in_window >= KILLS // 5
    assert report.torn_by_hand > 0
    assert report.tails_cut > 0
    assert report.kills_of_starts > 0
    assert report.seen_live == report.verdict.found


@pytest.mark.slow
def test_without_idempotence_the_same_kills_repeat_records(capsys: pytest.CaptureFixture[str]) -> None:
    report = crash(REPEATING, kills=WEAKER_KILLS, seed=20_250_602)

    _show(report, capsys)
    assert report.verdict.repeated > 0
    assert report.verdict.lost == 0


@pytest.mark.slow
def test_without_acks_the_same_kills_lose_records(capsys: pytest.CaptureFixture[str]) -> None:
    report = crash(FORGETTING, kills=WEAKER_KILLS, seed=20_250_603)

    _show(report, capsys)
    assert report.verdict.lost > 0


def _show(report: Report, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print("\n" + "\n".join(report.lines()))
