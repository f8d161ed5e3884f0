"""Decisions about ACLs: which of them are new, and which ones a filter removes.

Pure functions of the image, for `MetadataStore.propose`. What a request's ACLs and filters mean is decided before, in
`security/acl_filters.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.core.acls import AclBinding
from penstock.core.limits import ACLS_MAX
from penstock.metadata.changes import AclAdded, AclRemoved
from penstock.metadata.image import ClusterImage
from penstock.protocol.error_codes import BrokerError, ErrorCode


def add_acls(image: ClusterImage, bindings: Sequence[AclBinding], new_id: Callable[[], bytes]) -> list[AclAdded]:
    """Those of the ACLs that do not exist yet: creating one twice is no error, as in Kafka."""
    new = [binding for binding in dict.fromkeys(bindings) if binding not in image.acl_ids]
    if len(image.acls) + len(new) > ACLS_MAX:
        raise BrokerError(
            ErrorCode.POLICY_VIOLATION,
            f"The cluster has {len(image.acls)} ACLs, and {ACLS_MAX} at most; prefixed ACLs replace many.",
        )
    return [AclAdded(new_id(), binding) for binding in new]


def matching_acls(image: ClusterImage, matches: Callable[[AclBinding], bool]) -> list[AclBinding]:
    return [binding for binding in image.acl_ids if matches(binding)]


def remove_acls(image: ClusterImage, bindings: Sequence[AclBinding]) -> list[AclRemoved]:
    """An ACL that several filters match is removed once."""
    return [AclRemoved(image.acl_ids[binding]) for binding in dict.fromkeys(bindings) if binding in image.acl_ids]
