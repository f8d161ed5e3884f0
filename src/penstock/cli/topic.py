"""`penstock topic create|list|describe|alter|delete`, with the flags of kafka-topics.sh.

Owns the flags and the output; `client/admin.py` makes the requests.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer

from penstock.cli.command_error import usage_error
from penstock.cli.connection import connected
from penstock.cli.options import AsJson, BootstrapServer, ClientProperties, examples, one_topic, parse_assignments
from penstock.cli.topic_contents import contents_of
from penstock.cli.topic_layout import Described, as_json_value, as_text
from penstock.cli.topic_replicas import replicas_of
from penstock.client.admin import Admin, unknown_topic
from penstock.core.errors import TopicExists, UnknownTopic
from penstock.core.ids import TopicPartition

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
        describe: examples(
            "penstock topic describe orders",
            "penstock topic describe --under-replicated-partitions",
            "penstock topic describe --json",
        ),
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
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated-partitions", help="Only partitions with replicas that are not in sync.")
    ] = False,
    unavailable: Annotated[
        bool, typer.Option("--unavailable-partitions", help="Only partitions without a leader.")
    ] = False,
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
        topics = [admin.describe_topic(name) for name in chosen or known]
        partitions = [
            TopicPartition(each.name, partition.partition) for each in topics for partition in each.partitions
        ]
        replicas = replicas_of(configuration, topics)
        led = [each for each in partitions if not replicas[each].sets.is_offline]
        contents = contents_of(admin, configuration, led)
        overrides = {name for each in topics if not each.internal for name in each.overrides}
        without_effect = _without_effect(admin, overrides)
    described = [Described(each, replicas, contents, under_replicated, unavailable) for each in topics]
    if under_replicated or unavailable:
        described = [each for each in described if each.partitions]
    if as_json:
        print(json.dumps([as_json_value(each, without_effect) for each in described]))
    else:
        for each in described:
            print(as_text(each))
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
