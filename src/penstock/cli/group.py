"""`penstock group list|describe|reset-offsets|delete`, with the flags of kafka-consumer-groups.sh.

Owns the flags and the output; `client/admin.py` makes the requests.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from penstock.cli import group_layout as layout
from penstock.cli.command_error import usage_error
from penstock.cli.connection import connected, wire_connected
from penstock.cli.group_positions import copy_note, keeper_of, positions_of, store_of
from penstock.cli.offset_reset import (
    FromPlan,
    Scenario,
    ShiftBy,
    ToCurrent,
    ToEdge,
    ToOffset,
    ToTimestamp,
    before_now,
    chosen_partitions,
    new_offsets,
    parse_datetime,
    parse_plan,
    parse_topic_choice,
)
from penstock.cli.options import AsJson, BootstrapServer, ClientProperties, examples
from penstock.client.admin import Admin
from penstock.client.groups import GroupDescription, GroupListing, PartitionProgress, members_text, progress_of
from penstock.core.errors import ClientError, GroupNotEmpty, ProtocolError, UnknownGroup
from penstock.protocol.error_codes import BrokerError

Described = TypeVar("Described", GroupDescription, GroupListing)

GroupsArgument = Annotated[list[str] | None, typer.Argument(metavar="GROUP...", show_default=False)]
GroupArgument = Annotated[str | None, typer.Argument(metavar="GROUP", show_default=False)]
GroupOption = Annotated[
    str | None,
    typer.Option("--group", metavar="GROUP", help="The same as the argument, for kafka-consumer-groups.sh users."),
]
Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="The database that holds the group's positions: sqlite:///FILE or postgresql://HOST/DATABASE.",
    ),
]
AllGroups = Annotated[bool, typer.Option("--all-groups", help="All groups.")]


def build() -> typer.Typer:
    app = typer.Typer(rich_markup_mode=None, help="List, describe, reset and delete consumer groups.")
    commands: dict[str, tuple[Callable[..., Any], str]] = {
        "list": (list_groups, examples("penstock group list", "penstock group list --state Empty --json")),
        "describe": (
            describe,
            examples(
                "penstock group describe billing",
                "penstock group describe billing --members --verbose",
                "penstock group describe revenue --store sqlite:///revenue.db",
            ),
        ),
        "reset-offsets": (
            reset_offsets,
            examples(
                "penstock group reset-offsets billing --topic orders --to-earliest             dry run",
                "penstock group reset-offsets billing --topic orders:0,1 --shift-by -10 --execute",
                "penstock group reset-offsets billing --all-topics --to-datetime 2030-01-01T00:00:00 --execute",
                "penstock group reset-offsets revenue --all-topics --to-earliest --store sqlite:///revenue.db",
            ),
        ),
        "delete": (delete, examples("penstock group delete billing")),
    }
    for name, (command, epilog) in commands.items():
        app.command(name, epilog=epilog)(command)
    return app


def list_groups(
    *,
    state: Annotated[
        str | None,
        typer.Option("--state", metavar="STATE,...", help="Only groups in these states: Stable, Empty, Dead, ..."),
    ] = None,
    protocol: Annotated[
        str | None, typer.Option("--type", metavar="TYPE,...", help="Only groups of these types: classic, consumer.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show type and state.")] = False,
    bootstrap_server: BootstrapServer = None,
    client_properties: ClientProperties = None,
    as_json: AsJson = False,
) -> None:
    """List the groups, one name per line."""
    with connected(bootstrap_server, client_properties) as configuration:
        groups = _with_kafkas_states(Admin.from_librdkafka(configuration).list_groups(), configuration)
    states, protocols = _words(state), _words(protocol)
    shown = [
        group
        for group in groups
        if (not states or group.state.lower() in states) and (not protocols or group.protocol in protocols)
    ]
    if as_json:
        print(json.dumps([{"group": each.name, "type": each.protocol, "state": each.state} for each in shown]))
    elif verbose or states or protocols:
        print(layout.table(["GROUP", "TYPE", "STATE"], [[each.name, each.protocol, each.state] for each in shown]))
    else:
        for group in shown:
            print(group.name)


def describe(
    *,
    names: GroupsArgument = None,
    group: GroupOption = None,
    all_groups: AllGroups = False,
    members: Annotated[bool, typer.Option("--members", help="Show the members.")] = False,
    state: Annotated[bool, typer.Option("--state", help="Show the state.")] = False,
    offsets: Annotated[bool, typer.Option("--offsets", help="Show offsets and lag; the default.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="With --members: show the assignment.")] = False,
    store: Store = None,
    bootstrap_server: BootstrapServer = None,
    client_properties: ClientProperties = None,
    as_json: AsJson = False,
) -> None:
    """Show the offsets and lag of groups, their members, or their state."""
    if members + state + offsets > 1:
        raise usage_error("--offsets, --members, --state: use one of them")
    chosen = _groups(names, group)
    if bool(chosen) == all_groups:
        raise usage_error("use either GROUP... or --all-groups")
    if store is not None and len(chosen) != 1:
        raise usage_error("--store: use it with one group")
    with connected(bootstrap_server, client_properties) as configuration:
        admin = Admin.from_librdkafka(configuration)
        if all_groups:
            chosen = [listed.name for listed in admin.list_groups()]
        found_groups = _with_kafkas_states([admin.describe_group(name) for name in chosen], configuration)
        described = [(found, _progress(admin, found, store)) for found in found_groups]
        keepers = {name: keeper_of(admin, name) for name in chosen}
    if as_json:
        print(json.dumps([layout.as_json(found, progress, keepers[found.name]) for found, progress in described]))
    elif members:
        print(layout.members_table([found for found, _progress in described], with_partitions=verbose))
    elif state:
        print(layout.states_table([found for found, _progress in described]))
    else:
        print(layout.offsets_table(described))
        for name, keeper in keepers.items():
            if keeper is not None and store is None:
                print(f"penstock: {copy_note(name, keeper)}", file=sys.stderr)


def reset_offsets(
    *,
    name: GroupArgument = None,
    group: GroupOption = None,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="TOPIC[:0,1]", help="The topic, or some of its partitions; repeatable."),
    ] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="All topics for which the group has offsets.")
    ] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="Move to the earliest offset.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Move to the end of the log.")] = False,
    to_current: Annotated[
        bool, typer.Option("--to-current", help="Keep the current offset; without one, the end of the log.")
    ] = False,
    to_offset: Annotated[
        int | None, typer.Option("--to-offset", min=0, metavar="N", help="Move to this offset.")
    ] = None,
    shift_by: Annotated[
        int | None, typer.Option("--shift-by", metavar="N", help="Move by N records; back if negative.")
    ] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(
            "--to-datetime",
            metavar="TIME",
            help="Move to the first record of this time or later: YYYY-MM-DDTHH:MM:SS.sss.",
        ),
    ] = None,
    by_duration: Annotated[
        str | None, typer.Option("--by-duration", metavar="PnDTnHnMnS", help="Move to the time this long before now.")
    ] = None,
    from_file: Annotated[
        Path | None,
        typer.Option("--from-file", metavar="FILE", help="Move to the offsets of a file that --export wrote."),
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Commit the new offsets. Default: dry run.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the new offsets; the default.")] = False,
    export: Annotated[
        bool, typer.Option("--export", help="Print the new offsets as CSV: topic,partition,offset.")
    ] = False,
    store: Store = None,
    bootstrap_server: BootstrapServer = None,
    client_properties: ClientProperties = None,
    as_json: AsJson = False,
) -> None:
    """Move a group without active members to other offsets."""
    chosen = _one_group(name, group)
    if execute + dry_run + export > 1:
        raise usage_error("--execute, --dry-run, --export: use one of them")
    scenario = _only_one(
        ToEdge("earliest") if to_earliest else None,
        ToEdge("latest") if to_latest else None,
        ToCurrent() if to_current else None,
        ToOffset(to_offset) if to_offset is not None else None,
        ShiftBy(shift_by) if shift_by is not None else None,
        ToTimestamp(parse_datetime(to_datetime)) if to_datetime is not None else None,
        before_now(by_duration) if by_duration is not None else None,
        parse_plan(from_file.read_text(), str(from_file)) if from_file is not None else None,
    )
    choices = [parse_topic_choice(text) for text in topic or ()]
    if isinstance(scenario, FromPlan) == bool(choices or all_topics):
        raise usage_error("use either --topic or --all-topics; with --from-file use neither: the file names its topics")
    if choices and all_topics:
        raise usage_error("--topic with --all-topics: use one of the two")
    with connected(bootstrap_server, client_properties) as configuration:
        admin = Admin.from_librdkafka(configuration)
        _require_no_members(admin, chosen)
        with positions_of(admin, chosen, store) as positions:
            current = positions.current()
            if isinstance(scenario, FromPlan):
                partitions = sorted(scenario.offsets)
            else:
                partitions = sorted(current) if all_topics else chosen_partitions(admin, choices)
            moved = new_offsets(admin, scenario, partitions, current)
            if execute:
                positions.move(moved)
    if as_json:
        rows = [
            {
                "topic": each.topic,
                "partition": each.partition,
                "current_offset": current.get(each),
                "new_offset": offset,
            }
            for each, offset in moved.items()
        ]
        print(json.dumps({"group": chosen, "executed": execute, "offsets": rows}))
    elif export:
        print(layout.as_csv(moved))
    else:
        print(layout.new_offsets_table(chosen, moved))
        if not execute:
            print("\nDry run: no offset was changed. Add --execute to commit these offsets.", file=sys.stderr)


def delete(
    *,
    names: GroupsArgument = None,
    group: GroupOption = None,
    all_groups: AllGroups = False,
    bootstrap_server: BootstrapServer = None,
    client_properties: ClientProperties = None,
    as_json: AsJson = False,
) -> None:
    """Delete groups without active members, and their offsets."""
    chosen = _groups(names, group)
    if bool(chosen) == all_groups:
        raise usage_error("use either GROUP... or --all-groups")
    failures: list[ClientError] = []
    outcomes: list[tuple[str, bool]] = []
    with connected(bootstrap_server, client_properties) as configuration:
        admin = Admin.from_librdkafka(configuration)
        for name in [listed.name for listed in admin.list_groups()] if all_groups else chosen:
            try:
                keeper = keeper_of(admin, name)
                _require_no_members(admin, name)
                admin.delete_group(name)
                if keeper is not None:
                    print(f"penstock: {copy_note(name, keeper)}; the positions themselves stay", file=sys.stderr)
            except ClientError as failure:
                failures.append(failure)
                outcomes.append((name, False))
            else:
                outcomes.append((name, True))
    if as_json:
        print(json.dumps([{"group": name, "deleted": deleted} for name, deleted in outcomes]))
    else:
        for name, deleted in outcomes:
            if deleted:
                print(f"Deleted group {name}.")
    if failures:
        raise failures[0]


def _with_kafkas_states(groups: Sequence[Described], configuration: Mapping[str, Any]) -> list[Described]:
    """librdkafka does not know the states of KIP-848 (Assigning, Reconciling), and calls them Unknown."""
    if all(group.state != "Unknown" for group in groups):
        return list(groups)
    try:
        with wire_connected(configuration) as client:
            states = client.group_states()
    except (ClientError, BrokerError, ProtocolError):
        return list(groups)
    return [replace(group, state=states.get(group.name, group.state)) for group in groups]


def _progress(admin: Admin, group: GroupDescription, store_url: str | None) -> list[PartitionProgress]:
    if store_url is None:
        return admin.group_progress(group)
    with store_of(group.name, store_url) as store:
        stored = {partition: offset for partition, offset in store.positions(group.name).items() if offset is not None}
    return progress_of(group, stored, admin.offsets(stored, "latest"))


def _require_no_members(admin: Admin, name: str) -> None:
    try:
        group = admin.describe_group(name)
    except UnknownGroup:
        return  # Offsets may be set before a group has its first member.
    if group.members:
        raise GroupNotEmpty(members_text(group))


def _only_one(*scenarios: Scenario | None) -> Scenario:
    given = [scenario for scenario in scenarios if scenario is not None]
    if len(given) != 1:
        raise usage_error("use exactly one of --to-earliest, --to-latest, --to-offset, ...; see --help")
    return given[0]


def _groups(names: list[str] | None, option: str | None) -> list[str]:
    return list(dict.fromkeys([*(names or ()), *([option] if option is not None else ())]))


def _one_group(name: str | None, option: str | None) -> str:
    chosen = _groups([name] if name is not None else None, option)
    if len(chosen) != 1:
        raise usage_error("use exactly one group: GROUP or --group GROUP")
    return chosen[0]


def _words(text: str | None) -> set[str]:
    return {word.strip().lower() for word in (text or "").split(",") if word.strip()}
