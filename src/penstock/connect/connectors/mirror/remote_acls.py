"""ACLs of topics on the target cluster: whoever may read a topic may read its copy.

Owns what becomes of an ACL. As in MirrorMaker 2, only ACLs of single topics are copied, and no right to write: the
mirror alone writes to a remote topic. Rights are added and never taken away.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from penstock.client.security_admin import SecurityAdmin
from penstock.core.acls import WILDCARD, AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from penstock.core.errors import ClientError
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.security.acl_filters import AclFilter
from penstock.wire.client import WireClient

logger = logging.getLogger(__name__)


def sync_acls(source: WireClient, target: Mapping[str, str], remote_topic: Callable[[str], str | None]) -> bool:
    """`remote_topic` is None for a topic that is not replicated. False: the source cluster has no ACLs."""
    wanted = AclFilter(resource_type=ResourceType.TOPIC, pattern_type=PatternType.LITERAL)
    try:
        bindings = source.describe_acls(wanted)
    except BrokerError as refusal:
        if refusal.code == ErrorCode.SECURITY_DISABLED:
            return False
        logger.warning("ACLs of the source cluster could not be read: %s", refusal)
        return True
    copies = list(copied_acls(bindings, remote_topic))
    try:
        if copies:
            SecurityAdmin(target).create_acls(copies)
    except ClientError as error:
        # Records go on; the next round tries again.
        logger.warning("ACLs could not be created on the target cluster: %s", error)
    return True


def copied_acls(bindings: Iterable[AclBinding], remote_topic: Callable[[str], str | None]) -> Iterable[AclBinding]:
    for binding in bindings:
        topic = None if binding.pattern.name == WILDCARD else remote_topic(binding.pattern.name)
        is_allowed = binding.permission is AclPermission.ALLOW
        if topic is None or (is_allowed and binding.operation is AclOperation.WRITE):
            continue
        operation = binding.operation
        if is_allowed and operation is AclOperation.ALL:
            operation = AclOperation.READ
        yield binding._replace(pattern=binding.pattern._replace(name=topic), operation=operation)
