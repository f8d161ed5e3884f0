"""`penstock topic create|list|describe|alter|delete`, with the flags of kafka-topics.sh.

Owns the flags and the output; `client/admin.py` makes the requests.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

import typer

from penstock.cli.command_error import usage_error
from penstock.cli.connection import connected
from penstock.cli.options import AsJson, BootstrapServer, ClientProperties, examples, one_topic, parse_assignments
from penstock.cli.topic_contents import UNKNOWN_CONTENTS, PartitionContents, contents_of
from penstock.client.admin import Admin, TopicDescription, unknown_topic
from penstock.core.errors import TopicExists, UnknownTopic
from penstock.core.ids import TopicPartition

Contents = Mapping[TopicPartition, PartitionContents]

TopicArgument = Annotated[str | None, typer.Argument(metavar="TOPIC", show_default=False)]
TopicsArgument = Annotated[list[str] | None, typer.Argument(metavar="TOPIC...", show_default=False)]
TopicOption = Annotated[
    str | None, typer.Option("--topic", metavar="TOPIC", help="The same as the argument, for kafka-topics.sh users.")
]
Partitions = Annotated[
    int | None,
    typer.Option(
        "--partitions", min=1, metavar="N", help="The number of partitions. Default: the broker's num.partitions."
    ),
]
Config = Annotated[
    list[str] | None, typer.Option("--config", metavar="NAME=VALUE", help="A topic setting; repeatable.")
]


def build() -> typer.Typer:
    app = typer.Typer(rich_markup_mode=None, help="Create, list, describe, alter and delete topics.")
    commands: dict[Callable[..., Any], str] = {
        create: examples(
            "penstock topic create orders --partitions 3",
            "penstock topic create audit --config max.message.bytes=5000000 --config flush.messages=1",
        ),
        list_topics: examples("penstock topic list", "penstock topic list --json | jq -r '.[]'"),
        describe: examples("penstock topic describe orders", "penstock topic describe --json"),
        alter: examples(
            "penstock topic alter orders --partitions 6",
            "penstock topic alter orders --config max.message.bytes=5000000 --delete-config flush.messages",
        ),
        delete: examples("penstock topic delete orders", "penstock topic delete orders --if-exists"),
    }
    for command, epilog in commands.items():
        app.command("list" if command is list_topics else command.__name__, epilog=epilog)(command)
    return app


def create(
    *,
    name: TopicArgument = None,
    topic: TopicOption = None,
    partitions: Partitions = None,
    replication_factor: Annotated[
        int | None,
        typer.Option("--replication-factor", min=1, metavar="N", help="The number of replicas. Default: the broker's."),
    ] = None,
    config: Config = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="Succeed if the topic exists.")] = False,
    bootstrap_server: BootstrapServer = None,
    client_properties: ClientProperties = None,
    as_json: AsJson = False,
) -> None:
    """Create a topic."""
    chosen = one_topic(name, topic)
    settings = parse_assignments(config or (), "--config")
    with connected(bootstrap_server, client_properties) as configuration:
        admin = Admin.from_librdkafka(configuration)
        created = True
        try:
            admin.create_topic(chosen, partitions=partitions, replication_factor=replication_factor, config=settings)
        except TopicExists:
            if not if_not_exists:
                raise
            created = False
        if created:
            _say_without_effect(admin, settings)
    if as_json:
        print(json.dumps({"topic": chosen, "created": created}))
    else:
        print(f"Created topic {chosen}." if created else f"Topic {chosen} exists already.")


def list_topics(
    *,
    exclude_internal: Annotated[bool, typer.Option("--exclude-internal", help="Omit internal topics (__...).")] = False,
    bootstrap_server: BootstrapServer = None,
    client_properties: ClientProperties = None,
    as_json: AsJson = False,
) -> None:
    """List the topics, one name per line."""
    with connected(bootstrap_server, client_properties) as configuration:
        names = Admin.from_librdkafka(configuration).list_topics()
    shown = [name for name in names if not (exclude_internal and name.startswith("__"))]
    if as_json:
        print(json.dumps(shown))
    else:
        for name in shown:
            print(name)


def describe(
    *,
    names: TopicsArgument = None,
    topic: TopicOption = None,
    bootstrap_server: BootstrapServer = None,
    client_properties: ClientProperties = None,
    as_json: AsJson = False,
) -> None:
    """Show partitions, replicas, settings, offsets and sizes of some topics, or of all."""
    chosen = _topics(names, topic)
    with connected(bootstrap_server, client_properties) as configuration:
        admin = Admin.from_librdkafka(configuration)
        known = admin.list_topics()
        for name in chosen:
            if name not in known:
                raise unknown_topic(name, known)
        described = [admin.describe_topic(name) for name in chosen or known]
        partitions = [
            TopicPartition(topic.name, partition.partition) for topic in described for partition in topic.partitions
        ]
        contents = contents_of(admin, configuration, partitions)
        overrides = {name for topic in described if not topic.internal for name in topic.overrides}
        without_effect = _without_effect(admin, overrides)
    if as_json:
        print(json.dumps([_as_json(description, contents, without_effect) for description in described]))
    else:
        for description in described:
            print(_as_text(description, contents))
        _print_without_effect(without_effect)


def alter(
    *,
    name: TopicArgument = None,
    topic: TopicOption = None,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", min=1, metavar="N", help="The new number of partitions; it cannot decrease."),
    ] = None,
    config: Config = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option("--delete-config", metavar="NAME", help="Reset a setting to the broker's default; repeatable."),
    ] = None,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Succeed if the topic does not exist.")] = False,
    bootstrap_server: BootstrapServer = None,
    client_properties: ClientProperties = None,
    as_json: AsJson = False,
) -> None:
    """Add partitions to a topic, or change its settings."""
    chosen = one_topic(name, topic)
    changes = parse_assignments(config or (), "--config")
    if partitions is None and not changes and not delete_config:
        raise usage_error("nothing to alter: use --partitions, --config or --delete-config")
    with connected(bootstrap_server, client_properties) as configuration:
        admin = Admin.from_librdkafka(configuration)
        altered = True
        try:
            admin.require_topic(chosen)
            if changes or delete_config:
                admin.alter_topic_config(chosen, changes=changes, removals=delete_config or ())
            if partitions is not None:
                admin.set_partition_count(chosen, partitions)
        except UnknownTopic:
            if not if_exists:
                raise
            altered = False
        if altered:
            _say_without_effect(admin, changes)
    if as_json:
        print(json.dumps({"topic": chosen, "altered": altered}))
    else:
        print(f"Altered topic {chosen}." if altered else f"Topic {chosen} does not exist.")


def delete(
    *,
    names: TopicsArgument = None,
    topic: TopicOption = None,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Succeed if the topic does not exist.")] = False,
    bootstrap_server: BootstrapServer = None,
    client_properties: ClientProperties = None,
    as_json: AsJson = False,
) -> None:
    """Delete topics and their records, irrevocably and without confirmation."""
    chosen = _topics(names, topic)
    if not chosen:
        raise usage_error("no topic given: penstock topic delete TOPIC...")
    outcomes: list[tuple[str, bool]] = []
    with connected(bootstrap_server, client_properties) as configuration:
        admin = Admin.from_librdkafka(configuration)
        known = admin.list_topics()
        missing = [name for name in chosen if name not in known]
        if missing and not if_exists:
            raise unknown_topic(missing[0], known)
        for name in chosen:
            if name not in missing:
                admin.delete_topic(name)
            outcomes.append((name, name not in missing))
    if as_json:
        print(json.dumps([{"topic": name, "deleted": deleted} for name, deleted in outcomes]))
    else:
        for name, deleted in outcomes:
            print(f"Deleted topic {name}." if deleted else f"Topic {name} does not exist.")


def _topics(names: list[str] | None, option: str | None) -> list[str]:
    return list(dict.fromkeys([*(names or ()), *([option] if option is not None else ())]))


def _say_without_effect(admin: Admin, names: Iterable[str]) -> None:
    _print_without_effect(_without_effect(admin, names))


def _without_effect(admin: Admin, names: Iterable[str]) -> list[str]:
    """Those of the settings that the broker says it stores without effect."""
    given = set(names)
    return sorted(given & admin.settings_without_effect()) if given else []


def _print_without_effect(names: list[str]) -> None:
    if names:
        print(f"penstock: settings without effect in this version of the broker: {', '.join(names)}", file=sys.stderr)


def _as_json(topic: TopicDescription, contents: Contents, without_effect: list[str]) -> dict[str, Any]:
    held = [contents.get(TopicPartition(topic.name, each.partition), UNKNOWN_CONTENTS) for each in topic.partitions]
    return {
        "topic": topic.name,
        "topic_id": topic.topic_id,
        "internal": topic.internal,
        "replication_factor": topic.replication_factor,
        "configs": dict(topic.overrides),
        "configs_without_effect": [name for name in without_effect if name in topic.overrides],
        "records": _sum(each.records for each in held),
        "size_bytes": _sum(each.size_bytes for each in held),
        "partitions": [
            {
                "partition": partition.partition,
                "leader": partition.leader,
                "replicas": list(partition.replicas),
                "isr": list(partition.in_sync_replicas),
                "start_offset": each.start_offset,
                "end_offset": each.end_offset,
                "records": each.records,
                "size_bytes": each.size_bytes,
            }
            for partition, each in zip(topic.partitions, held, strict=True)
        ],
    }


def _sum(values: Iterable[int | None]) -> int | None:
    """None if one of them is unknown."""
    known = list(values)
    return None if None in known else sum(value or 0 for value in known)


def _as_text(topic: TopicDescription, contents: Contents) -> str:
    """The lines of kafka-topics.sh --describe, which existing scripts parse; offsets and sizes follow its fields."""
    configs = ",".join(f"{key}={value}" for key, value in topic.overrides.items())
    lines = [
        f"Topic: {topic.name}\tTopicId: {topic.topic_id}\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: {topic.replication_factor}\tConfigs: {configs}"
    ]
    for partition in topic.partitions:
        leader = "none" if partition.leader is None else partition.leader
        replicas = ",".join(map(str, partition.replicas))
        in_sync = ",".join(map(str, partition.in_sync_replicas))
        lines.append(
            f"\tTopic: {topic.name}\tPartition: {partition.partition}\tLeader: {leader}"
            f"\tReplicas: {replicas}\tIsr: {in_sync}"
            + _contents_text(contents.get(TopicPartition(topic.name, partition.partition), UNKNOWN_CONTENTS))
        )
    return "\n".join(lines)


def _contents_text(held: PartitionContents) -> str:
    fields = {
        "StartOffset": held.start_offset,
        "EndOffset": held.end_offset,
        "Records": held.records,
        "Bytes": held.size_bytes,
    }
    return "".join(f"\t{name}: {'-' if value is None else value}" for name, value in fields.items())
