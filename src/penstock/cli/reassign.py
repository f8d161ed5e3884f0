"""`penstock cluster reassign`: plans, starts, follows and cancels reassignments, as kafka-reassign-partitions.sh does.

Owns the flags, the output, and how `--generate` spreads replicas; `wire/replicas.py` makes the requests.

Invariant: `--execute` prints the replicas that partitions had before it starts anything: with them it can be undone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.command_error import CommandError, usage_error
from penstock.cli.connection import connected, wire_connected
from penstock.cli.options import AsJson, BootstrapServer, ClientProperties
from penstock.cli.partition_file import file_text, partition_name, replicas_in
from penstock.core.errors import UnknownTopic
from penstock.core.exit_codes import ExitCode
from penstock.core.ids import TopicPartition
from penstock.protocol.error_codes import BrokerError
from penstock.wire.replicas import Reassignment

if TYPE_CHECKING:
    from penstock.wire.client import WireClient

File = Annotated[Path | None, typer.Argument(metavar="[FILE]", show_default=False, help="The plan, as JSON.")]


def reassign(
    file: File = None,
    *,
    reassignment_file: Annotated[
        Path | None,
        typer.Option("--reassignment-json-file", metavar="FILE", help="The same, for kafka-reassign-partitions users."),
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Start the reassignments of FILE.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Say whether those of FILE have completed.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel those of FILE.")] = False,
    generate: Annotated[bool, typer.Option("--generate", help="Print a plan for --topic and --broker-list.")] = False,
    list_all: Annotated[bool, typer.Option("--list", help="List the reassignments in progress.")] = False,
    topics: Annotated[list[str] | None, typer.Option("--topic", metavar="TOPIC", help="Repeatable.")] = None,
    broker_list: Annotated[str | None, typer.Option("--broker-list", metavar="1,2,3", help="Where to.")] = None,
    bootstrap_server: BootstrapServer = None,
    client_properties: ClientProperties = None,
    as_json: AsJson = False,
) -> None:
    """Move replicas between brokers."""
    if [execute, verify, cancel, generate, list_all].count(True) != 1:
        raise usage_error("use one of --execute, --verify, --cancel, --generate, --list")
    chosen = file or reassignment_file
    wanted: dict[TopicPartition, list[int]] = {}
    if execute or verify or cancel:
        if chosen is None:
            raise usage_error("no file given: penstock cluster reassign --execute plan.json")
        wanted = replicas_in(chosen)
    with connected(bootstrap_server, client_properties) as configuration, wire_connected(configuration) as client:
        try:
            if generate:
                _generate(client, topics or [], _brokers(broker_list))
            elif list_all:
                _list(client, as_json=as_json)
            elif execute:
                _execute(client, wanted, as_json=as_json)
            elif verify:
                _verify(client, wanted, as_json=as_json)
            else:
                _cancel(client, wanted, as_json=as_json)
        except BrokerError as refusal:
            raise CommandError(str(refusal), ExitCode.FAILURE) from refusal


def _brokers(text: str | None) -> list[int]:
    try:
        brokers = [int(each) for each in (text or "").split(",") if each.strip()]
    except ValueError:
        raise usage_error(f"--broker-list {text}: expected broker ids, as in 1,2,3") from None
    if not brokers:
        raise usage_error("--generate needs --broker-list, as in 1,2,3")
    return list(dict.fromkeys(brokers))


def _generate(client: WireClient, topics: Sequence[str], brokers: Sequence[int]) -> None:
    if not topics:
        raise usage_error("--generate needs --topic; it is repeatable")
    current = _current(client, topics)
    print("Current partition replica assignment:", file=sys.stderr)
    print(file_text(current), file=sys.stderr)
    racks = {broker.broker_id: broker.rack for broker in client.describe_cluster().brokers}
    for broker in brokers:
        if broker not in racks:
            known = ",".join(map(str, racks))
            raise usage_error(f"--broker-list: the cluster has no broker {broker}; it has {known}")
    print(file_text(spread(current, brokers, racks)))


def spread(
    current: Mapping[TopicPartition, Sequence[int]], brokers: Sequence[int], racks: Mapping[int, str | None]
) -> dict[TopicPartition, list[int]]:
    """As many replicas as before on these brokers: leaders evenly, and the replicas of a partition on as many racks as
    there are. Raises CommandError if a topic has more replicas than there are brokers."""
    plan: dict[TopicPartition, list[int]] = {}
    leads = dict.fromkeys(brokers, 0)
    holds = dict.fromkeys(brokers, 0)
    for partition, replicas in sorted(current.items()):
        if len(replicas) > len(brokers):
            raise CommandError(
                f"{partition_name(partition)} has {len(replicas)} replicas; --broker-list names {len(brokers)} brokers",
                ExitCode.FAILURE,
            )
        chosen: list[int] = []
        while len(chosen) < len(replicas):
            used = [racks.get(each) for each in chosen]
            free = [each for each in brokers if each not in chosen]
            load = holds if chosen else leads

            def cost(broker: int, used: list[str | None] = used, load: dict[int, int] = load) -> tuple[int, int, int]:
                rack = racks.get(broker)
                return used.count(rack) if rack is not None else 0, load[broker], holds[broker]

            chosen.append(min(free, key=cost))
            holds[chosen[-1]] += 1
        leads[chosen[0]] += 1
        plan[partition] = chosen
    return plan


def _current(client: WireClient, topics: Iterable[str]) -> dict[TopicPartition, tuple[int, ...]]:
    found = client.metadata(topics).topics
    for name in topics:
        if name not in found:
            raise UnknownTopic(f"topic '{name}' does not exist")
    return {
        TopicPartition(name, number): partition.replicas
        for name, topic in found.items()
        for number, partition in topic.partitions.items()
    }


def _execute(client: WireClient, wanted: Mapping[TopicPartition, Sequence[int]], *, as_json: bool) -> None:
    current = _current(client, {each.topic for each in wanted})
    before = {each: current[each] for each in wanted if each in current}
    if not as_json:
        print("Current partition replica assignment\n")
        print(file_text(before))
        print("\nSave this to use as the --reassignment-json-file option during rollback")
    outcomes = client.alter_reassignments(wanted)
    started = [each for each, error in sorted(outcomes.items()) if error is None]
    if as_json:
        print(json.dumps({"before": json.loads(file_text(before)), "started": [each._asdict() for each in started]}))
    elif started:
        print(f"Successfully started partition reassignments for {','.join(map(partition_name, started))}")
    _raise_failures(outcomes)


def _verify(client: WireClient, wanted: Mapping[TopicPartition, Sequence[int]], *, as_json: bool) -> None:
    in_progress = client.list_reassignments()
    current = _current(client, {each.topic for each in wanted})
    states = {each: _state(each, target, current, in_progress) for each, target in sorted(wanted.items())}
    if as_json:
        print(json.dumps([{**each._asdict(), "state": state} for each, state in states.items()]))
    else:
        print("Status of partition reassignment:")
        for each, state in states.items():
            print(f"Reassignment of partition {partition_name(each)} {_STATES[state]}")
    if "differs" in states.values():
        raise CommandError("some partitions have other replicas, and no reassignment is in progress", ExitCode.FAILURE)


_STATES = {
    "completed": "is completed.",
    "in_progress": "is still in progress.",
    "differs": "is not in progress, and its replicas are others.",
}


def _state(
    partition: TopicPartition,
    target: Sequence[int],
    current: Mapping[TopicPartition, Sequence[int]],
    in_progress: Mapping[TopicPartition, Reassignment],
) -> str:
    if partition in in_progress:
        return "in_progress"
    return "completed" if list(current.get(partition, ())) == list(target) else "differs"


def _cancel(client: WireClient, wanted: Mapping[TopicPartition, Sequence[int]], *, as_json: bool) -> None:
    in_progress = client.list_reassignments()
    active = [each for each in wanted if each in in_progress]
    outcomes = client.alter_reassignments(dict.fromkeys(active)) if active else {}
    cancelled = [each for each, error in sorted(outcomes.items()) if error is None]
    if as_json:
        print(json.dumps({"cancelled": [each._asdict() for each in cancelled]}))
    elif cancelled:
        print(f"Successfully cancelled partition reassignments for: {','.join(map(partition_name, cancelled))}")
    else:
        print("None of the specified partition moves are active.")
    _raise_failures(outcomes)


def _list(client: WireClient, *, as_json: bool) -> None:
    found = sorted(client.list_reassignments().items())
    if as_json:
        print(json.dumps([{**each._asdict(), **_as_json(moved)} for each, moved in found]))
    elif not found:
        print("No partition reassignments found.")
    else:
        print("Current partition reassignments:")
        for each, moved in found:
            parts = [f"{partition_name(each)}: replicas: {_ids(moved.replicas)}."]
            parts += [f"adding: {_ids(moved.adding)}."] if moved.adding else []
            parts += [f"removing: {_ids(moved.removing)}."] if moved.removing else []
            print(" ".join(parts))


def _as_json(moved: Reassignment) -> dict[str, Any]:
    return {"replicas": list(moved.replicas), "adding": list(moved.adding), "removing": list(moved.removing)}


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))


def _raise_failures(outcomes: Mapping[TopicPartition, BrokerError | None]) -> None:
    failed = {each: error for each, error in sorted(outcomes.items()) if error is not None}
    for each, error in failed.items():
        print(f"penstock: {partition_name(each)}: {error}", file=sys.stderr)
    if failed:
        raise CommandError(f"{len(failed)} of {len(outcomes)} partitions were refused", ExitCode.FAILURE)
