"""FindCoordinator: names the leader of a key's partition; in a cluster it creates the coordinators' topics first."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.coordinator.placement import partition_of
from penstock.core.ids import TopicName
from penstock.metadata.topics import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from penstock.protocol.definitions.find_coordinator import FindCoordinatorRequest
from penstock.protocol.error_codes import ErrorCode
from tests.unit.broker.handlers.requests import ask, versions_of
from tests.unit.broker.nodes import LISTENER_NAME, commit_changes, node_in
from tests.unit.metadata.images import registered

SETTINGS = {"transaction.state.log.num.partitions": "3"}


@pytest.mark.parametrize("key_type", [0, 1])
@pytest.mark.parametrize("version", versions_of(FindCoordinatorRequest))
def test_a_broker_alone_coordinates_everything(tmp_path: Path, version: int, key_type: int) -> None:
    async def main() -> None:
        with node_in(tmp_path, SETTINGS) as node:
            if version < 4:
                if version == 0 and key_type:
                    return
                response = ask(node, FindCoordinatorRequest(key="key", key_type=key_type), version)
                assert (response.error_code, response.node_id) == (ErrorCode.NONE, 1)
                assert (response.host, response.port) == ("127.0.0.1", 9092)
            else:
                request = FindCoordinatorRequest(coordinator_keys=["one", "two"], key_type=key_type)
                response = ask(node, request, version)
                assert [(found.key, found.error_code, found.node_id) for found in response.coordinators] == [
                    ("one", 0, 1),
                    ("two", 0, 1),
                ]
            assert node.image.topics == {}, "looking creates nothing"
            assert node._groups is None, "nor does it load the coordinator's code: every consumer asks"
            assert node._transactions is None

    asyncio.run(main())


@pytest.mark.parametrize(("key_type", "topic", "count"), [(0, GROUP_OFFSETS_TOPIC, 2), (1, TRANSACTION_STATE_TOPIC, 3)])
def test_in_a_cluster_the_leader_of_the_partition_coordinates(
    tmp_path: Path, key_type: int, topic: TopicName, count: int
) -> None:
    async def main() -> None:
        with node_in(tmp_path, SETTINGS) as node:
            commit_changes(node, registered(2))
            keys = [f"key-{number}" for number in range(20)]
            response = ask(node, FindCoordinatorRequest(coordinator_keys=keys, key_type=key_type))
            partitions = node.image.topics[topic].partitions
            assert len(partitions) == count
            expected = [partitions[partition_of(key, count)].leader for key in keys]
            assert [found.node_id for found in response.coordinators] == expected
            assert set(expected) == {1, 2}
            ports = {1: 9092, 2: registered(2).broker.endpoints[LISTENER_NAME].port}
            assert all(found.port == ports[found.node_id] for found in response.coordinators)

    asyncio.run(main())


def test_a_topic_that_cannot_be_created_leaves_no_coordinator(tmp_path: Path) -> None:
    async def main() -> None:
        with node_in(tmp_path, {"offsets.topic.num.partitions": "20000"}) as node:
            commit_changes(node, registered(2))
            response = ask(node, FindCoordinatorRequest(key="group"), 3)
            assert (response.error_code, response.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
            assert "cannot be created" in response.error_message

    asyncio.run(main())
