"""`penstock group` as far as it goes without a broker: usage, scenarios, layout."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.cli import group
from penstock.cli.command_error import CommandError
from penstock.cli.group_layout import as_csv, as_json, members_table, offsets_table, states_table, table
from penstock.cli.main import main
from penstock.cli.offset_reset import (
    FromPlan,
    Scenario,
    ShiftBy,
    ToCurrent,
    ToEdge,
    ToOffset,
    ToTimestamp,
    new_offsets,
    parse_datetime,
    parse_duration_ms,
    parse_plan,
    parse_topic_choice,
)
from penstock.client.groups import GroupDescription, GroupMember, members_text, progress_of
from penstock.core.errors import UnknownTopic
from penstock.core.exit_codes import ExitCode
from penstock.core.ids import TopicPartition

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
MEMBER = GroupMember("m-1", None, "rdkafka", "/127.0.0.1", (A0, A1))
GROUP = GroupDescription("g", "Stable", "classic", "range", "127.0.0.1:9092", (MEMBER,))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["describe"], "use either GROUP... or --all-groups"),
        (["describe", "g", "--all-groups"], "use either GROUP... or --all-groups"),
        (["describe", "g", "--members", "--state"], "use one of them"),
        (["delete"], "use either GROUP... or --all-groups"),
        (["reset-offsets", "--to-earliest", "--all-topics"], "use exactly one group: GROUP or --group GROUP"),
        (["reset-offsets", "g", "--group", "h", "--to-earliest", "--all-topics"], "use exactly one group"),
        (["reset-offsets", "g", "--all-topics"], "use exactly one of --to-earliest"),
        (["reset-offsets", "g", "--all-topics", "--to-earliest", "--to-latest"], "use exactly one of --to-earliest"),
        (["reset-offsets", "g", "--to-earliest"], "use either --topic or --all-topics"),
        (["reset-offsets", "g", "--to-earliest", "--all-topics", "--topic", "a"], "--topic with --all-topics"),
        (["reset-offsets", "g", "--to-earliest", "--topic", "a:x"], "--topic a:x: expected TOPIC or TOPIC:0,1,2"),
        (["reset-offsets", "g", "--all-topics", "--to-datetime", "noon"], "--to-datetime noon: expected YYYY"),
        (["reset-offsets", "g", "--all-topics", "--by-duration", "1d"], "--by-duration 1d: expected PnDTnHnMnS"),
        (["reset-offsets", "g", "--all-topics", "--to-offset", "-1"], "--to-offset"),
        (["reset-offsets", "g", "--all-topics", "--to-latest", "--execute", "--dry-run"], "use one of them"),
    ],
)
def test_wrong_usage(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["group", *words]) == ExitCode.USAGE
    line = capsys.readouterr().err
    assert message in line
    assert line.count("\n") == 1
    assert not (tmp_path / ".penstock").exists()


@pytest.mark.parametrize("command", ["list", "describe", "reset-offsets", "delete"])
def test_help_has_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["group", command, "--help"]) == ExitCode.OK
    assert f"Examples:\n    penstock group {command}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("P1D", 86_400_000), ("PT1H30M", 5_400_000), ("P2DT3S", 172_803_000), ("PT0.5S", 500)],
)
def test_durations(text: str, milliseconds: int) -> None:
    assert parse_duration_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["P", "PT", "", "1D", "P1H", "PT1D", "P-1D"])
def test_bad_durations(text: str) -> None:
    with pytest.raises(CommandError, match="--by-duration"):
        parse_duration_ms(text)


def test_a_time_without_a_zone_is_utc() -> None:
    assert parse_datetime("1970-01-02T00:00:00.250") == 86_400_250
    assert parse_datetime("1970-01-01T01:00:00+01:00") == 0
    assert parse_datetime("1970-01-01T00:00:01Z") == 1000


def test_topics() -> None:
    assert parse_topic_choice("a") == ("a", None)
    assert parse_topic_choice("a:0,2") == ("a", [0, 2])


def test_a_plan_is_what_export_writes() -> None:
    offsets = {A0: 5, TopicPartition("with space", 1): 7}
    assert parse_plan(as_csv(offsets), "plan.csv") == FromPlan(offsets)
    with pytest.raises(CommandError, match=r"--from-file plan.csv line 2: expected topic,partition,offset"):
        parse_plan("a,0,1\na,0\n", "plan.csv")
    with pytest.raises(CommandError, match="the file contains no offsets"):
        parse_plan("\n", "plan.csv")


class _Admin:
    """Partition 0 of 'a' holds the offsets 10 to 99, partition 1 none, and there is no other."""

    def offsets(self, partitions: list[TopicPartition], at: str | int) -> dict[TopicPartition, int]:
        answers = {
            "earliest": {A0: 10, A1: 0},
            "latest": {A0: 100, A1: 0},
        }
        known = answers[at] if isinstance(at, str) else {A0: 42, A1: 0}
        return {each: known[each] for each in partitions if each in known}


@pytest.mark.parametrize(
    ("scenario", "offset"),
    [
        (ToEdge("earliest"), 10),
        (ToEdge("latest"), 100),
        (ToCurrent(), 50),
        (ToOffset(20), 20),
        (ToOffset(3), 10),
        (ToOffset(500), 100),
        (ShiftBy(-5), 45),
        (ShiftBy(-500), 10),
        (ShiftBy(500), 100),
        (ToTimestamp(0), 42),
        (FromPlan({A0: 77, A1: 0}), 77),
    ],
)
def test_where_a_group_is_moved_to(scenario: Scenario, offset: int) -> None:
    moved = new_offsets(_Admin(), scenario, [A0, A1], {A0: 50, A1: 0})  # type: ignore[arg-type]
    assert moved == {A0: offset, A1: 0}


def test_moves_that_cannot_be_made() -> None:
    with pytest.raises(CommandError, match="the group has no committed offset for topic 'a' partition 1"):
        new_offsets(_Admin(), ShiftBy(1), [A0, A1], {A0: 50})  # type: ignore[arg-type]
    with pytest.raises(UnknownTopic, match="topic 'b' partition 0 does not exist"):
        new_offsets(_Admin(), ToOffset(1), [TopicPartition("b", 0)], {})  # type: ignore[arg-type]


def test_progress_is_of_what_was_committed_and_of_what_is_assigned() -> None:
    gone = TopicPartition("gone", 0)
    progress = progress_of(GROUP, {A0: 7, gone: 3}, {A0: 10, A1: 4})
    assert [(each.partition, each.committed, each.end_offset, each.lag) for each in progress] == [
        (A0, 7, 10, 3),
        (A1, None, 4, None),
        (gone, 3, None, None),
    ]
    assert [each.member for each in progress] == [MEMBER, MEMBER, None]
    described = as_json(GROUP, progress, None)
    assert described["lag"] is None, "the lag of a partition without a committed offset is unknown, and not 0"
    assert as_json(GROUP, [each for each in progress if each.partition != A1], None)["lag"] == 3
    assert described["offsets"][1] == {
        "topic": "a",
        "partition": 1,
        "current_offset": None,
        "log_end_offset": 4,
        "lag": None,
        "consumer_id": "m-1",
    }


def test_the_columns_are_those_of_kafkas_tool() -> None:
    lines = offsets_table([(GROUP, progress_of(GROUP, {A0: 7}, {A0: 10, A1: 4}))]).splitlines()
    assert lines[0].split() == [
        "GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID",
    ]  # fmt: skip
    assert lines[1].split() == ["g", "a", "0", "7", "10", "3", "m-1", "/127.0.0.1", "rdkafka"]
    assert lines[2].split()[3:6] == ["-", "4", "-"]
    assert members_table([GROUP], with_partitions=True).splitlines()[1].split()[-2:] == ["2", "a(0,1)"]
    assert states_table([GROUP]).splitlines()[1].split() == ["g", "127.0.0.1:9092", "range", "Stable", "classic", "1"]


def test_columns_are_as_wide_as_they_have_to_be() -> None:
    assert table(["A", "LONG"], [["longer", 0], ["x", None]]) == "A       LONG\nlonger  0\nx       -"


def test_active_members_are_named_with_the_time_until_they_leave() -> None:
    said = members_text(GROUP)
    assert said == (
        "group 'g' has 1 active member (rdkafka at 127.0.0.1); stop it first; a member that was killed leaves when "
        "its session ends, by default after 45 s (session.timeout.ms)"
    )
    crowd = replace(GROUP, members=(MEMBER,) * 5, protocol="consumer")
    assert members_text(crowd) == (
        "group 'g' has 5 active members (rdkafka at 127.0.0.1, rdkafka at 127.0.0.1, rdkafka at 127.0.0.1, 2 more); "
        "stop them first; a member that was killed leaves when its session ends, by default after 45 s "
        "(group.consumer.session.timeout.ms)"
    )


def test_states_that_librdkafka_does_not_know_are_the_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    class Client:
        def group_states(self) -> dict[str, str]:
            return {"g": "Reconciling", "h": "Stable"}

    @contextmanager
    def connected(_configuration: object) -> Iterator[Client]:
        yield Client()

    monkeypatch.setattr(group, "wire_connected", connected)
    known = replace(GROUP, name="h")
    assert group._with_kafkas_states([replace(GROUP, state="Unknown"), known], {}) == [
        replace(GROUP, state="Reconciling"),
        known,
    ]
