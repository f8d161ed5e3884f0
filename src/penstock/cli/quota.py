"""`penstock quota list|set|remove`: what kafka-configs.sh does for users, clients and ips.

Owns the flags and the output; `wire/quotas.py` makes the requests, because librdkafka has none for quotas.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

import typer

from penstock.cli.command_error import CommandError, usage_error
from penstock.cli.connection import connected, wire_connected
from penstock.cli.group_layout import table
from penstock.cli.options import AsJson, BootstrapServer, ClientProperties, examples, parse_assignments
from penstock.core.exit_codes import ExitCode
from penstock.core.quotas import DEFAULT, QuotaEntity
from penstock.protocol.error_codes import BrokerError

User = Annotated[str | None, typer.Option("--user", metavar="NAME", help="The user that the quota is for.")]
ClientId = Annotated[str | None, typer.Option("--client-id", metavar="ID", help="The client id that it is for.")]
Ip = Annotated[str | None, typer.Option("--ip", metavar="ADDRESS", help="The IP address that it is for.")]
UserDefaults = Annotated[bool, typer.Option("--user-defaults", help="All users without a quota of their own.")]
ClientDefaults = Annotated[bool, typer.Option("--client-defaults", help="All client ids without one of their own.")]
IpDefaults = Annotated[bool, typer.Option("--ip-defaults", help="All addresses without one of their own.")]
Assignments = Annotated[list[str], typer.Argument(metavar="NAME=VALUE...", show_default=False)]
Names = Annotated[list[str], typer.Argument(metavar="NAME...", show_default=False)]


def build() -> typer.Typer:
    app = typer.Typer(rich_markup_mode=None, help="List, set and remove quotas of users, client ids and addresses.")
    commands: dict[str, tuple[Callable[..., Any], str]] = {
        "list": (list_quotas, examples("penstock quota list", "penstock quota list --user alice --json")),
        "set": (
            set_quotas,
            examples(
                "penstock quota set --user alice producer_byte_rate=1048576 consumer_byte_rate=2097152",
                "penstock quota set --user alice --client-id app request_percentage=50",
                "penstock quota set --client-defaults producer_byte_rate=10485760",
                "penstock quota set --user-defaults controller_mutation_rate=5",
                "penstock quota set --ip 10.0.0.7 connection_creation_rate=10",
            ),
        ),
        "remove": (remove, examples("penstock quota remove --user alice producer_byte_rate")),
    }
    for name, (command, epilog) in commands.items():
        app.command(name, epilog=epilog)(command)
    return app


def list_quotas(
    *,
    user: User = None,
    user_defaults: UserDefaults = False,
    client_id: ClientId = None,
    client_defaults: ClientDefaults = False,
    ip: Ip = None,
    ip_defaults: IpDefaults = False,
    bootstrap_server: BootstrapServer = None,
    client_properties: ClientProperties = None,
    as_json: AsJson = False,
) -> None:
    """List the quotas that are set, or those of one user, client id or address."""
    wanted = QuotaEntity(
        _part("--user", user, user_defaults),
        _part("--client-id", client_id, client_defaults),
        _part("--ip", ip, ip_defaults),
    )
    with connected(bootstrap_server, client_properties) as configuration, wire_connected(configuration) as client:
        try:
            quotas = client.client_quotas()
        except BrokerError as refusal:
            raise CommandError(str(refusal), ExitCode.FAILURE) from refusal
    shown = {entity: limits for entity, limits in sorted(quotas.items(), key=str) if _is_wanted(entity, wanted)}
    if as_json:
        print(json.dumps([{"entity": _named(entity), "quotas": limits} for entity, limits in shown.items()]))
    elif shown:
        rows = [
            [entity, key, _text(limit)] for entity, limits in shown.items() for key, limit in sorted(limits.items())
        ]
        print(table(["ENTITY", "QUOTA", "LIMIT"], rows))


def set_quotas(
    assignments: Assignments,
    *,
    user: User = None,
    user_defaults: UserDefaults = False,
    client_id: ClientId = None,
    client_defaults: ClientDefaults = False,
    ip: Ip = None,
    ip_defaults: IpDefaults = False,
    bootstrap_server: BootstrapServer = None,
    client_properties: ClientProperties = None,
) -> None:
    """Set quotas: producer_byte_rate, consumer_byte_rate, request_percentage and controller_mutation_rate of users and
    client ids, connection_creation_rate of addresses. Quotas that are not named stay."""
    entity = _entity(user, user_defaults, client_id, client_defaults, ip, ip_defaults)
    changes = {name: _number(name, text) for name, text in parse_assignments(assignments, "NAME=VALUE").items()}
    _alter(entity, changes, [], bootstrap_server, client_properties)


def remove(
    names: Names,
    *,
    user: User = None,
    user_defaults: UserDefaults = False,
    client_id: ClientId = None,
    client_defaults: ClientDefaults = False,
    ip: Ip = None,
    ip_defaults: IpDefaults = False,
    bootstrap_server: BootstrapServer = None,
    client_properties: ClientProperties = None,
) -> None:
    """Remove quotas by name."""
    entity = _entity(user, user_defaults, client_id, client_defaults, ip, ip_defaults)
    _alter(entity, {}, names, bootstrap_server, client_properties)


def _alter(
    entity: QuotaEntity,
    changes: dict[str, float],
    removals: list[str],
    bootstrap_server: str | None,
    client_properties: list[str] | None,
) -> None:
    with connected(bootstrap_server, client_properties) as configuration, wire_connected(configuration) as client:
        try:
            client.alter_client_quotas(entity, changes, removals)
        except BrokerError as refusal:
            raise CommandError(str(refusal), ExitCode.FAILURE) from refusal


def _entity(
    user: str | None,
    user_defaults: bool,
    client_id: str | None,
    client_defaults: bool,
    ip: str | None,
    ip_defaults: bool,
) -> QuotaEntity:
    entity = QuotaEntity(
        _part("--user", user, user_defaults),
        _part("--client-id", client_id, client_defaults),
        _part("--ip", ip, ip_defaults),
    )
    if entity == QuotaEntity():
        raise usage_error("whom is the quota for? Use --user, --client-id, both, or --ip, or their defaults")
    if entity.ip is not None and entity != QuotaEntity(ip=entity.ip):
        raise usage_error("--ip: a quota is for an address, or for a user and client id, not for both")
    return entity


def _part(option: str, name: str | None, is_default: bool) -> str | None:
    if name is not None and is_default:
        raise usage_error(f"{option}: give a name or the defaults, not both")
    if name == "":
        raise usage_error(f"{option}: the name is empty")
    return DEFAULT if is_default else name


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise usage_error(f"{name}={text}: expected a number") from None


def _text(limit: float) -> str:
    return str(int(limit)) if limit.is_integer() else str(limit)


def _is_wanted(entity: QuotaEntity, wanted: QuotaEntity) -> bool:
    return all(name is None or name == of_entity for name, of_entity in zip(wanted, entity, strict=True))


def _named(entity: QuotaEntity) -> dict[str, str | None]:
    """Kafka's words; null is the default."""
    named = {"user": entity.user, "client-id": entity.client_id, "ip": entity.ip}
    return {kind: name or None for kind, name in named.items() if name is not None}
