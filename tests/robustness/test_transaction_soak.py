"""A slice of `make transactions`: a copy under faults, what they do to a weaker one, and the judge itself."""

from __future__ import annotations

import pytest

from tests.robustness.transaction_copier import AT_LEAST_ONCE, EXACTLY_ONCE
from tests.robustness.transaction_ledger import (
    OUTPUT_PARTITIONS,
    Event,
    Journal,
    Verdict,
    compare_views,
    copied_value,
    input_value,
    judge,
    output_partition,
)
from tests.robustness.transaction_soak import copy_under_faults

RECORDS, KILLS = 20_000, 4
# A copy of fewer is over before the faults that are planned for its middle come.
WEAKER_RECORDS, WEAKER_KILLS = 20_000, 2

View = dict[int, list[tuple[int, bytes]]]


@pytest.mark.slow
def test_every_record_is_copied_once_and_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    report = copy_under_faults(EXACTLY_ONCE, records=RECORDS, kills=KILLS, seed=20_250_701)

    with capsys.disabled():
        print("\n" + report.line())
    assert report.holds, "\n".join([report.line(), *report.problem_lines()])
    # The faults came at moments that matter, or the above would prove nothing.
    assert report.shows_something, report.line()
    assert report.uncommitted_verdict.aborted_read > 0, report.uncommitted_line()
    assert report.uncommitted_verdict.repeated > 0, report.uncommitted_line()


@pytest.mark.slow
def test_without_transactions_the_same_faults_repeat_records(capsys: pytest.CaptureFixture[str]) -> None:
    report = copy_under_faults(AT_LEAST_ONCE, records=WEAKER_RECORDS, kills=WEAKER_KILLS, seed=20_250_702)

    with capsys.disabled():
        print("\n" + report.line())
    assert report.verdict.repeated > 0
    assert report.verdict.lost == 0


class TestJudge:
    """Each of the things that can go wrong, on a copy of one input partition in two transactions of 21 records."""

    SENT = (42, 0, 0, 0)

    @pytest.fixture
    def journal(self) -> Journal:
        journal = Journal()
        for transaction in ("one", "two"):
            journal.note(transaction, Event.COMMITTING, 10)
            journal.note(transaction, Event.COMMITTED, 20)
        return journal

    @pytest.fixture
    def view(self) -> View:
        view: View = {partition: [] for partition in range(OUTPUT_PARTITIONS)}
        for number in range(42):
            transaction = "one" if number < 21 else "two"
            records = view[output_partition(0, number)]
            records.append((len(records), copied_value(transaction, number % 21, 21, input_value(0, number))))
        return view

    def judge(self, view: View, journal: Journal) -> Verdict:
        return judge(self.SENT, view, view, journal)

    def test_a_good_copy(self, view: View, journal: Journal) -> None:
        verdict = self.judge(view, journal)
        assert verdict.is_exactly_once
        assert (verdict.sent, verdict.copied, verdict.transactions) == (42, 42, 2)

    def test_a_torn_transaction(self, view: View, journal: Journal) -> None:
        del view[1][0]
        verdict = self.judge(view, journal)
        assert (verdict.torn, verdict.lost) == (1, 1)

    def test_a_missing_transaction(self, view: View, journal: Journal) -> None:
        verdict = self.judge({partition: records[:7] for partition, records in view.items()}, journal)
        assert (verdict.torn, verdict.lost, verdict.committed_missing) == (0, 21, 1)

    def test_a_repeated_record(self, view: View, journal: Journal) -> None:
        view[2].append((99, view[2][-1][1]))
        assert self.judge(view, journal).repeated == 1

    def test_a_wrong_order(self, view: View, journal: Journal) -> None:
        view[0][3], view[0][4] = view[0][4], view[0][3]
        assert self.judge(view, journal).out_of_order == 1

    def test_an_aborted_transaction_that_is_read(self, view: View, journal: Journal) -> None:
        journal.note("two", Event.ABORTED, 30)
        assert self.judge(view, journal).aborted_read == 1

    @pytest.mark.parametrize("value", [b"", b"one 0 21 0 0 other", b"one 0 21 9 0 ", b"\xff 0 21 0 0 "])
    def test_a_record_that_nobody_copied(self, view: View, journal: Journal, value: bytes) -> None:
        view[0].append((99, value))
        assert self.judge(view, journal).strange == 1

    def test_a_committed_record_that_is_not_in_the_log(self, view: View, journal: Journal) -> None:
        in_log = {partition: records[1:] for partition, records in view.items()}
        assert not judge(self.SENT, view, in_log, journal).is_exactly_once

    def test_aborted_records_in_the_log(self, view: View, journal: Journal) -> None:
        in_log = {partition: [*records, (99, b"aborted")] for partition, records in view.items()}
        verdict = judge(self.SENT, view, in_log, journal)
        assert verdict.is_exactly_once
        assert verdict.aborted_in_log == OUTPUT_PARTITIONS

    def test_a_reader_along(self, view: View, journal: Journal) -> None:
        seen = {partition: list(records) for partition, records in view.items()}
        assert compare_views(seen, view, {"one": 15, "two": 15}, journal) == []
        assert compare_views(seen, view, {"one": 15, "two": 5}, journal) == [
            "read before their commit was asked for: two"
        ]
        seen[1].append((99, b"aborted"))
        assert len(compare_views(seen, view, {"one": 15, "two": 15}, journal)) == 1
