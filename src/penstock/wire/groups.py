"""The states of consumer groups, in the broker's own words. It must never know offsets or members."""

from __future__ import annotations

from typing import Final

from penstock.protocol.definitions.list_groups import ListGroupsRequest, ListGroupsResponse
from penstock.protocol.error_codes import BrokerError
from penstock.wire.cluster import Cluster
from penstock.wire.errors import ConnectionLost, require_success

_STATES_SINCE: Final = 4


def group_states(cluster: Cluster, timeout_s: float | None) -> dict[str, str]:
    """Of all groups, from every broker: each lists the groups that it coordinates, once it has loaded them."""
    retry = cluster.retry("listing groups", timeout_s)
    while True:
        try:
            return _listed_by_every_broker(cluster)
        except (ConnectionLost, BrokerError) as cause:
            retry.pause(cause)


def _listed_by_every_broker(cluster: Cluster) -> dict[str, str]:
    states: dict[str, str] = {}
    for node_id in cluster.fetch_metadata([], allow_auto_topic_creation=False).brokers:
        connection = cluster.connection(node_id)
        version = connection.version_for(ListGroupsRequest, at_least=_STATES_SINCE)
        response: ListGroupsResponse = connection.ask(ListGroupsRequest(), version)
        require_success(response.error_code, "groups")
        states |= {group.group_id: group.group_state for group in response.groups}
    return states
