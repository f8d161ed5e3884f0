"""`penstock acl create|list|delete`, with the flags of kafka-acls.sh.

Owns the flags and the output; `client/security_admin.py` makes the requests.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Annotated, Any, Final, TypeVar

import typer

from penstock.cli.command_error import usage_error
from penstock.cli.connection import connected, wire_connected
from penstock.cli.options import AsJson, BootstrapServer, ClientProperties, examples
from penstock.core.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AclBinding,
    AclOperation,
    AclPermission,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from penstock.security.acl_filters import AclFilter

CodeT = TypeVar("CodeT", bound=IntEnum)

Topics = Annotated[list[str] | None, typer.Option("--topic", metavar="NAME", help="A topic; * means all; repeatable.")]
Groups = Annotated[list[str] | None, typer.Option("--group", metavar="NAME", help="A consumer group; repeatable.")]
TransactionalIds = Annotated[
    list[str] | None, typer.Option("--transactional-id", metavar="ID", help="A transactional id; repeatable.")
]
Cluster = Annotated[bool, typer.Option("--cluster", help="The cluster itself.")]
Pattern = Annotated[
    str | None,
    typer.Option(
        "--resource-pattern-type",
        metavar="TYPE",
        help="literal or prefixed; to list and delete also match (all that covers the name) and any.",
    ),
]
Operations = Annotated[
    list[str] | None,
    typer.Option("--operation", metavar="OPERATION", help="Read, Write, Describe, All, ...; repeatable. Default: All."),
]
AllowPrincipals = Annotated[
    list[str] | None, typer.Option("--allow-principal", metavar="User:NAME", help="Who may; repeatable.")
]
DenyPrincipals = Annotated[
    list[str] | None, typer.Option("--deny-principal", metavar="User:NAME", help="Who may not; repeatable.")
]
Principal = Annotated[str | None, typer.Option("--principal", metavar="User:NAME", help="Of this principal.")]
Hosts = Annotated[list[str] | None, typer.Option("--host", metavar="ADDRESS", help="From where. Default: everywhere.")]

_PRODUCER: Final = (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE)
_CONSUMER: Final = (AclOperation.READ, AclOperation.DESCRIBE)


def build() -> typer.Typer:
    app = typer.Typer(rich_markup_mode=None, help="Create, list and delete ACLs: who may do what.")
    commands: dict[Callable[..., Any], str] = {
        create: examples(
            "penstock acl create --allow-principal User:alice --operation Read --topic orders",
            "penstock acl create --allow-principal User:alice --producer --topic orders",
            "penstock acl create --allow-principal User:alice --consumer --topic orders --group billing",
            "penstock acl create --deny-principal User:eve --topic pay --resource-pattern-type prefixed",
        ),
        list_acls: examples(
            "penstock acl list", "penstock acl list --topic orders --resource-pattern-type match --json"
        ),
        delete: examples("penstock acl delete --allow-principal User:alice --topic orders"),
    }
    for command, epilog in commands.items():
        app.command("list" if command is list_acls else command.__name__, epilog=epilog)(command)
    return app


def create(
    *,
    allow_principals: AllowPrincipals = None,
    deny_principals: DenyPrincipals = None,
    operations: Operations = None,
    topics: Topics = None,
    groups: Groups = None,
    transactional_ids: TransactionalIds = None,
    cluster: Cluster = False,
    pattern: Pattern = None,
    hosts: Hosts = None,
    producer: Annotated[bool, typer.Option("--producer", help="What a producer needs of the topics.")] = False,
    consumer: Annotated[bool, typer.Option("--consumer", help="What a consumer needs of topics and groups.")] = False,
    bootstrap_server: BootstrapServer = None,
    client_properties: ClientProperties = None,
    as_json: AsJson = False,
) -> None:
    """Create ACLs: one for each principal, host, operation and resource."""
    pattern_type = parsed(PatternType, pattern or "literal", "--resource-pattern-type")
    if pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise usage_error(f"--resource-pattern-type {pattern}: an ACL is literal or prefixed")
    patterns = resources(topics, groups, transactional_ids, cluster, pattern_type)
    if not patterns:
        raise usage_error("no resource given: use --topic, --group, --transactional-id or --cluster")
    if (producer or consumer) and (operations or deny_principals):
        raise usage_error("--producer and --consumer choose the operations that are allowed; leave out others")
    principals = [
        *((checked_principal(each), AclPermission.ALLOW) for each in allow_principals or ()),
        *((checked_principal(each), AclPermission.DENY) for each in deny_principals or ()),
    ]
    if not principals:
        raise usage_error("no principal given: use --allow-principal User:NAME or --deny-principal User:NAME")
    wanted = [
        AclBinding(resource, principal, host, operation, permission)
        for resource in patterns
        for principal, permission in principals
        for host in hosts or [WILDCARD]
        for operation in operations_on(resource.resource_type, operations, producer=producer, consumer=consumer)
    ]
    with connected(bootstrap_server, client_properties) as configuration:
        from penstock.client.security_admin import SecurityAdmin

        SecurityAdmin.from_librdkafka(configuration).create_acls(wanted)
    _print(wanted, as_json, "Created")


def list_acls(
    *,
    principal: Annotated[
        str | None, typer.Option("--principal", metavar="User:NAME", help="Of this principal.")
    ] = None,
    topics: Topics = None,
    groups: Groups = None,
    transactional_ids: TransactionalIds = None,
    cluster: Cluster = False,
    pattern: Pattern = None,
    bootstrap_server: BootstrapServer = None,
    client_properties: ClientProperties = None,
    as_json: AsJson = False,
) -> None:
    """List ACLs; without a resource, all of them."""
    pattern_type = parsed(PatternType, pattern or "any", "--resource-pattern-type")
    patterns = resources(topics, groups, transactional_ids, cluster, pattern_type)
    with connected(bootstrap_server, client_properties) as configuration:
        filters = [AclFilter(each.resource_type, each.name, pattern_type, principal) for each in patterns]
        with wire_connected(configuration) as client:
            found = [
                acl for wanted in filters or [AclFilter(principal=principal)] for acl in client.describe_acls(wanted)
            ]
    _print(sorted(set(found)), as_json, "")


def delete(
    *,
    allow_principals: AllowPrincipals = None,
    deny_principals: DenyPrincipals = None,
    operations: Operations = None,
    topics: Topics = None,
    groups: Groups = None,
    transactional_ids: TransactionalIds = None,
    cluster: Cluster = False,
    pattern: Pattern = None,
    bootstrap_server: BootstrapServer = None,
    client_properties: ClientProperties = None,
    as_json: AsJson = False,
) -> None:
    """Delete ACLs of the given resources; with principals or operations, only theirs."""
    pattern_type = parsed(PatternType, pattern or "literal", "--resource-pattern-type")
    patterns = resources(topics, groups, transactional_ids, cluster, pattern_type)
    if not patterns:
        raise usage_error("no resource given: use --topic, --group, --transactional-id or --cluster")
    principals: list[tuple[str | None, AclPermission]] = [
        *((checked_principal(each), AclPermission.ALLOW) for each in allow_principals or ()),
        *((checked_principal(each), AclPermission.DENY) for each in deny_principals or ()),
    ]
    wanted_operations = [parsed(AclOperation, each, "--operation") for each in operations or ()]
    with connected(bootstrap_server, client_properties) as configuration:
        from penstock.client.security_admin import SecurityAdmin

        admin = SecurityAdmin.from_librdkafka(configuration)
        deleted = [
            acl
            for each in patterns
            for principal, permission in principals or [(None, AclPermission.ANY)]
            for operation in wanted_operations or [AclOperation.ANY]
            for acl in admin.delete_acls(
                AclFilter(each.resource_type, each.name, pattern_type, principal, None, operation, permission)
            )
        ]
    _print(deleted, as_json, "Deleted")


def operations_on(
    resource_type: ResourceType, named: list[str] | None, *, producer: bool, consumer: bool
) -> list[AclOperation]:
    """What --producer and --consumer of kafka-acls.sh stand for, or the operations that were named."""
    if not producer and not consumer:
        return [parsed(AclOperation, each, "--operation") for each in named or ["All"]]
    chosen: list[AclOperation] = []
    if producer and resource_type is ResourceType.TOPIC:
        chosen += _PRODUCER
    if producer and resource_type is ResourceType.TRANSACTIONAL_ID:
        chosen += (AclOperation.WRITE, AclOperation.DESCRIBE)
    if consumer and resource_type is ResourceType.TOPIC:
        chosen += _CONSUMER
    if consumer and resource_type is ResourceType.GROUP:
        chosen += (AclOperation.READ,)
    return list(dict.fromkeys(chosen))


def resources(
    topics: list[str] | None,
    groups: list[str] | None,
    transactional_ids: list[str] | None,
    cluster: bool,
    pattern_type: PatternType,
) -> list[ResourcePattern]:
    named = [
        *((ResourceType.TOPIC, name) for name in topics or ()),
        *((ResourceType.GROUP, name) for name in groups or ()),
        *((ResourceType.TRANSACTIONAL_ID, name) for name in transactional_ids or ()),
    ]
    found = [ResourcePattern(kind, name, pattern_type) for kind, name in named]
    if cluster:
        found.append(ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL))
    return found


def parsed(codes: type[CodeT], text: str, option: str) -> CodeT:
    """One of Kafka's names, in any spelling of kafka-acls.sh: `ClusterAction`, `CLUSTER_ACTION`, `cluster-action`."""
    folded = text.replace("_", "").replace("-", "").lower()
    by_name = {str(code).lower(): code for code in codes if code.name != "UNKNOWN"}
    if folded not in by_name:
        known = ", ".join(str(code) for code in codes if code.value > 1)
        raise usage_error(f"{option} {text}: expected one of {known}")
    return by_name[folded]


def checked_principal(text: str) -> str:
    kind, colon, name = text.partition(":")
    if not (kind and colon and name):
        raise usage_error(f"'{text}' is not a principal; write User:{text}")
    return text


def _print(bindings: Iterable[AclBinding], as_json: bool, verb: str) -> None:
    if as_json:
        print(json.dumps([_as_json(each) for each in bindings]))
        return
    for each in bindings:
        line = (
            f"{each.principal} {str(each.permission).lower()} {each.operation} on {each.pattern.resource_type} "
            f"{each.pattern.name} ({str(each.pattern.pattern_type).lower()}) from {each.host}"
        )
        print(f"{verb}: {line}" if verb else line)


def _as_json(binding: AclBinding) -> dict[str, str]:
    return {
        "principal": binding.principal,
        "permission": binding.permission.name,
        "operation": binding.operation.name,
        "resource_type": binding.pattern.resource_type.name,
        "resource_name": binding.pattern.name,
        "pattern_type": binding.pattern.pattern_type.name,
        "host": binding.host,
    }
