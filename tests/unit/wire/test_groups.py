"""Groups are listed by every broker of a cluster, whatever it takes until all of them answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.core.errors import BrokerUnreachable
from penstock.protocol.definitions.list_groups import ListedGroup, ListGroupsResponse
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.protocol.schema import Message
from penstock.wire.cluster import Cluster
from penstock.wire.errors import ConnectionLost
from penstock.wire.groups import group_states
from penstock.wire.retry import Retry
from penstock.wire.settings import WireSettings

SETTINGS = WireSettings.parse({"bootstrap.servers": "model:1", "retry.backoff.ms": "0", "reconnect.backoff.ms": "0"})
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class ModelCluster:
    """Two brokers, each with a group of its own; `failures` are what the brokers do first, by broker."""

    def __init__(self, **failures: list[ErrorCode | ConnectionLost]) -> None:
        self.failures = failures

    def retry(self, subject: str, timeout_s: float | None = None) -> Retry:
        return Retry(SETTINGS, subject, timeout_s)

    def fetch_metadata(self, topics: list[str], *, allow_auto_topic_creation: bool) -> Any:
        assert not topics
        assert not allow_auto_topic_creation
        return SimpleNamespace(brokers={1: "", 2: ""})

    def connection(self, node_id: int) -> ModelConnection:
        return ModelConnection(node_id, self.failures.get(f"broker_{node_id}", []))


class ModelConnection:
    def __init__(self, node_id: int, failures: list[ErrorCode | ConnectionLost]) -> None:
        self.node_id = node_id
        self.failures = failures

    def version_for(self, request: type[Message], *, at_least: int) -> int:
        return at_least

    def ask(self, request: Message, version: int) -> ListGroupsResponse:
        failure = self.failures.pop(0) if self.failures else None
        if isinstance(failure, ConnectionLost):
            raise failure
        if failure is not None:
            return ListGroupsResponse(error_code=failure)
        group = ListedGroup(group_id=f"group-{self.node_id}", protocol_type="consumer", group_state="Stable")
        return ListGroupsResponse(groups=[group])


def states_of(cluster: ModelCluster, timeout_s: float | None = None) -> dict[str, str]:
    return group_states(cast(Cluster, cluster), timeout_s)


@pytest.mark.parametrize("failure", [LOADING, ErrorCode.COORDINATOR_NOT_AVAILABLE, ConnectionLost("closed")], ids=repr)
@pytest.mark.parametrize("broker", ["broker_1", "broker_2"])
def test_a_broker_that_cannot_list_its_groups_yet_is_asked_again(
    broker: str, failure: ErrorCode | ConnectionLost
) -> None:
    cluster = ModelCluster(**{broker: [failure, failure]})
    assert states_of(cluster) == {"group-1": "Stable", "group-2": "Stable"}
    assert cluster.failures == {broker: []}


def test_a_broker_that_refuses_is_asked_once() -> None:
    cluster = ModelCluster(broker_2=[ErrorCode.CLUSTER_AUTHORIZATION_FAILED, LOADING])
    with pytest.raises(BrokerError) as refused:
        states_of(cluster)
    assert refused.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert cluster.failures == {"broker_2": [LOADING]}


def test_brokers_are_asked_until_the_deadline() -> None:
    with pytest.raises(BrokerError) as loading:
        states_of(ModelCluster(broker_1=[LOADING]), timeout_s=0)
    assert loading.value.code == LOADING
    with pytest.raises(BrokerUnreachable, match="listing groups: no broker answered in time"):
        states_of(ModelCluster(broker_1=[ConnectionLost("closed")]), timeout_s=0)
