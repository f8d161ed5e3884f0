"""The authorizer's index against a search through the list of all ACLs, written as Kafka documents the rules."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.acls import AclBinding, AclOperation, AclPermission, PatternType, ResourcePattern, ResourceType
from penstock.security.authorizer import Authorizer, Client

NAMES = ("*", "a", "ab", "abc", "b", "abd")
PRINCIPALS = ("User:alice", "User:bob", "User:*")
HOSTS = ("*", "10.0.0.1", "10.0.0.2")
OPERATIONS = tuple(operation for operation in AclOperation if operation >= AclOperation.READ)

patterns = st.builds(
    ResourcePattern,
    st.sampled_from((ResourceType.TOPIC, ResourceType.GROUP)),
    st.sampled_from(NAMES),
    st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)),
)
bindings = st.builds(
    AclBinding,
    patterns,
    st.sampled_from(PRINCIPALS),
    st.sampled_from(HOSTS),
    st.sampled_from((AclOperation.ALL, *OPERATIONS)),
    st.sampled_from((AclPermission.ALLOW, AclPermission.ALLOW, AclPermission.DENY)),
)
clients = st.builds(Client, st.sampled_from(("User:alice", "User:bob", "User:root")), st.sampled_from(HOSTS[1:]))


def naive(
    acls: list[AclBinding], client: Client, operation: AclOperation, name: str, *, open_without_acl: bool
) -> bool:
    if client.principal == "User:root":
        return True
    covering = []
    for acl in acls:
        if acl.pattern.resource_type != ResourceType.TOPIC:
            continue
        if acl.pattern.pattern_type == PatternType.PREFIXED:
            covers = name[: len(acl.pattern.name)] == acl.pattern.name
        else:
            covers = acl.pattern.name in ("*", name)
        if covers:
            covering.append(acl)
    if not covering:
        return open_without_acl
    for_client = [
        acl for acl in covering if (acl.principal in ("User:*", client.principal)) and (acl.host in ("*", client.host))
    ]
    allows = {operation, AclOperation.ALL}
    if operation == AclOperation.DESCRIBE:
        allows |= {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
    if operation == AclOperation.DESCRIBE_CONFIGS:
        allows |= {AclOperation.ALTER_CONFIGS}
    denied = [a for a in for_client if a.permission == AclPermission.DENY and a.operation in (operation, 2)]
    allowed = [a for a in for_client if a.permission == AclPermission.ALLOW and a.operation in allows]
    return bool(allowed) and not denied


@given(
    st.lists(bindings, max_size=12),
    st.sets(st.integers(0, 11)),
    clients,
    st.sampled_from(OPERATIONS),
    st.sampled_from(NAMES[1:]),
    st.booleans(),
)
def test_the_index_decides_as_a_search_through_the_list(
    acls: list[AclBinding],
    removed: set[int],
    client: Client,
    operation: AclOperation,
    name: str,
    open_without_acl: bool,
) -> None:
    authorizer = Authorizer(acls, super_users=["User:root"], allow_everyone_if_no_acl_found=open_without_acl)
    gone = {acls[index] for index in removed if index < len(acls)}
    for acl in gone:
        authorizer.remove(acl)
    left = [acl for acl in acls if acl not in gone]
    expected = naive(left, client, operation, name, open_without_acl=open_without_acl)
    assert authorizer.authorize(client, operation, ResourceType.TOPIC, name) == expected


@given(st.lists(bindings, max_size=10), clients, st.sampled_from(OPERATIONS))
def test_what_is_allowed_with_one_topic_is_allowed_with_any(
    acls: list[AclBinding], client: Client, operation: AclOperation
) -> None:
    """Names that an ALLOW covers, and names nobody has thought of."""
    authorizer = Authorizer(acls, super_users=["User:root"])
    candidates = {f"{name}{suffix}" for name in NAMES for suffix in ("", "-unheard-of")} | {"unheard-of"}
    with_one = any(authorizer.authorize(client, operation, ResourceType.TOPIC, name) for name in candidates)
    assert authorizer.authorize_any(client, operation, ResourceType.TOPIC) == with_one
