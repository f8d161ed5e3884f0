"""`penstock cluster describe|elect-leaders|reassign|unregister`: what kafka-cluster.sh, kafka-leader-election.sh and
kafka-reassign-partitions.sh do.

Owns the flags and the output of all but `reassign`; `wire/replicas.py` makes the requests.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from penstock.cli.command_error import CommandError, usage_error
from penstock.cli.connection import connected, wire_connected
from penstock.cli.group_layout import table
from penstock.cli.options import AsJson, BootstrapServer, ClientProperties, examples
from penstock.cli.partition_file import partition_name, partitions_in
from penstock.cli.reassign import reassign
from penstock.cli.topic_replicas import Replicas, replica_fields, replicas_json
from penstock.core.exit_codes import ExitCode
from penstock.core.ids import TopicPartition
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.wire.replicas import ClusterDescription, ElectionType, PartitionReplicas

if TYPE_CHECKING:
    from penstock.wire.client import WireClient

_LINES_MAX: Final = 50  # of partitions that are not well: the rest is counted


def build() -> typer.Typer:
    app = typer.Typer(rich_markup_mode=None, help="Describe a cluster, elect leaders, move replicas.")
    commands: dict[str, tuple[Callable[..., Any], str]] = {
        "describe": (
            describe,
            examples("penstock cluster describe -b 127.0.0.1:9092", "penstock cluster describe --json"),
        ),
        "elect-leaders": (
            elect_leaders,
            examples(
                "penstock cluster elect-leaders --election-type preferred --all-topic-partitions",
                "penstock cluster elect-leaders --election-type unclean --topic orders --partition 0",
            ),
        ),
        "reassign": (
            reassign,
            examples(
                "penstock cluster reassign --generate --topic orders --broker-list 1,2,4 > plan.json",
                "penstock cluster reassign --execute plan.json",
                "penstock cluster reassign --verify plan.json",
                "penstock cluster reassign --list",
            ),
        ),
        "unregister": (unregister, examples("penstock cluster unregister --id 3")),
    }
    for name, (command, epilog) in commands.items():
        app.command(name, epilog=epilog)(command)
    return app


@contextmanager
def administration(bootstrap_server: str | None, client_properties: list[str] | None) -> Iterator[WireClient]:
    """A refusal becomes one line."""
    with connected(bootstrap_server, client_properties) as configuration, wire_connected(configuration) as client:
        try:
            yield client
        except BrokerError as refusal:
            raise CommandError(str(refusal), ExitCode.FAILURE) from refusal


def describe(
    *,
    bootstrap_server: BootstrapServer = None,
    client_properties: ClientProperties = None,
    as_json: AsJson = False,
) -> None:
    """Show brokers, racks, the controller, and partitions that are under-replicated or offline."""
    with administration(bootstrap_server, client_properties) as client:
        cluster = client.describe_cluster()
        partitions = client.describe_replicas()
    if as_json:
        print(json.dumps(_as_json(cluster, partitions)))
    else:
        print(_as_text(cluster, partitions))


def _as_json(cluster: ClusterDescription, partitions: Mapping[TopicPartition, PartitionReplicas]) -> dict[str, Any]:
    return {
        "cluster_id": cluster.cluster_id,
        "controller": None if cluster.controller_id < 0 else cluster.controller_id,
        "topics": len({partition.topic for partition in partitions}),
        "partitions": len(partitions),
        "brokers": [
            {
                "id": broker.broker_id,
                "host": broker.host,
                "port": broker.port,
                "rack": broker.rack,
                "fenced": broker.is_fenced,
                "leaders": sum(each.leader_id == broker.broker_id for each in partitions.values()),
                "replicas": sum(broker.broker_id in each.replicas for each in partitions.values()),
            }
            for broker in cluster.brokers
        ],
        "under_replicated_partitions": [
            {"topic": partition.topic, "partition": partition.partition, **replicas_json(Replicas(each))}
            for partition, each in sorted(partitions.items())
            if each.is_under_replicated and not each.is_offline
        ],
        "offline_partitions": [
            {"topic": partition.topic, "partition": partition.partition, **replicas_json(Replicas(each))}
            for partition, each in sorted(partitions.items())
            if each.is_offline
        ],
    }


def _as_text(cluster: ClusterDescription, partitions: Mapping[TopicPartition, PartitionReplicas]) -> str:
    offline = {each: sets for each, sets in sorted(partitions.items()) if sets.is_offline}
    under_replicated = {
        each: sets for each, sets in sorted(partitions.items()) if sets.is_under_replicated and not sets.is_offline
    }
    title = {
        "ClusterId": cluster.cluster_id,
        "Controller": "none" if cluster.controller_id < 0 else cluster.controller_id,
        "Brokers": len(cluster.brokers),
        "Fenced": sum(broker.is_fenced for broker in cluster.brokers),
        "Topics": len({partition.topic for partition in partitions}),
        "Partitions": len(partitions),
        "UnderReplicated": len(under_replicated),
        "Offline": len(offline),
    }
    rows = [
        [
            broker.broker_id,
            f"{broker.host}:{broker.port}",
            broker.rack,
            "fenced" if broker.is_fenced else "alive",
            sum(each.leader_id == broker.broker_id for each in partitions.values()),
            sum(broker.broker_id in each.replicas for each in partitions.values()),
        ]
        for broker in cluster.brokers
    ]
    parts = ["\t".join(f"{name}: {value}" for name, value in title.items())]
    parts.append(table(["BROKER", "ADDRESS", "RACK", "STATE", "LEADERS", "REPLICAS"], rows))
    for heading, found in (("Under-replicated partitions", under_replicated), ("Offline partitions", offline)):
        if found:
            lines = [replica_fields(each, Replicas(sets)) for each, sets in list(found.items())[:_LINES_MAX]]
            more = [f"\t... and {len(found) - _LINES_MAX} more"] if len(found) > _LINES_MAX else []
            parts.append("\n".join([f"{heading}:", *lines, *more]))
    return "\n".join(parts)


def elect_leaders(
    *,
    election_type: Annotated[
        str, typer.Option("--election-type", metavar="preferred|unclean", help="unclean may lose records.")
    ] = "preferred",
    topic: Annotated[str | None, typer.Option("--topic", metavar="TOPIC", help="With --partition.")] = None,
    partition: Annotated[int | None, typer.Option("--partition", min=0, metavar="N", help="With --topic.")] = None,
    file: Annotated[
        Path | None,
        typer.Option("--path-to-json-file", metavar="FILE", help='{"partitions": [{"topic": ..., "partition": ...}]}'),
    ] = None,
    all_partitions: Annotated[bool, typer.Option("--all-topic-partitions", help="All partitions.")] = False,
    bootstrap_server: BootstrapServer = None,
    client_properties: ClientProperties = None,
    as_json: AsJson = False,
) -> None:
    """Elect leaders: the preferred replica, which is the first of each partition, or any that is alive."""
    kind = {each.name.lower(): each for each in ElectionType}.get(election_type.lower())
    if kind is None:
        raise usage_error(f"--election-type {election_type}: expected preferred or unclean")
    wanted = _elected(topic, partition, file, all_partitions)
    with administration(bootstrap_server, client_properties) as client:
        outcomes = client.elect_leaders(kind, wanted)
    valid = [each for each, error in outcomes.items() if error and error.code == ErrorCode.ELECTION_NOT_NEEDED]
    failed = {each: error for each, error in sorted(outcomes.items()) if error and each not in valid}
    elected = [each for each, error in outcomes.items() if error is None]
    if as_json:
        value = {
            "elected": [each._asdict() for each in sorted(elected)],
            "already_elected": [each._asdict() for each in sorted(valid)],
            "failed": [{**each._asdict(), "error": str(error)} for each, error in failed.items()],
        }
        print(json.dumps(value))
    else:
        _print_election(kind, elected, valid)
    for each, error in failed.items():
        print(
            f"penstock: no leader elected ({kind.name}) for partition {partition_name(each)}: {error}", file=sys.stderr
        )
    if failed:
        raise CommandError(f"{len(failed)} of {len(outcomes)} elections failed", ExitCode.FAILURE)


def _elected(
    topic: str | None, partition: int | None, file: Path | None, all_partitions: bool
) -> list[TopicPartition] | None:
    if (topic is None) != (partition is None):
        raise usage_error("--topic and --partition go together")
    if [topic is not None, file is not None, all_partitions].count(True) != 1:
        raise usage_error("use one of --topic with --partition, --path-to-json-file, --all-topic-partitions")
    if topic is not None and partition is not None:
        return [TopicPartition(topic, partition)]
    return None if file is None else list(partitions_in(file))


def _print_election(kind: ElectionType, elected: list[TopicPartition], valid: list[TopicPartition]) -> None:
    if elected:
        names = ", ".join(map(partition_name, sorted(elected)))
        print(f"Successfully completed leader election ({kind.name}) for partitions {names}")
    if valid:
        print(f"Valid replica already elected for partitions {', '.join(map(partition_name, sorted(valid)))}")
    if not elected and not valid:
        print("No election was needed.")


def unregister(
    *,
    broker_id: Annotated[int, typer.Option("--id", min=0, metavar="N", help="The broker's node.id.")],
    bootstrap_server: BootstrapServer = None,
    client_properties: ClientProperties = None,
    as_json: AsJson = False,
) -> None:
    """Forget a broker that will not come back. Move its replicas first: `penstock cluster reassign`."""
    with administration(bootstrap_server, client_properties) as client:
        client.unregister_broker(broker_id)
    print(json.dumps({"unregistered": broker_id}) if as_json else f"Broker {broker_id} is no longer registered.")
