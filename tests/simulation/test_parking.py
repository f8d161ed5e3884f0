"""Which APIs may keep a client waiting for something other than the disk: the router says so, and the handlers agree.

In virtual time a disk takes none. What is not answered as soon as the network has delivered it is parked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from penstock.broker.router import BY_API_KEY, ROUTES
from penstock.metadata.listener_security import ListenerSecurity
from penstock.protocol.codec import request_class
from penstock.protocol.schema import Message
from tests.integration.broker.conversation import (
    batch_of,
    create_topic,
    delete_records,
    delete_topic,
    fetch,
    fetch_request,
    list_offset,
    produce_ok,
    produce_request,
    set_topic_config,
)
from tests.integration.broker.group_conversation import (
    JOIN_VERSION,
    Member,
    commit_ok,
    committed_offset,
    delete_group,
    delete_offsets,
    join_request,
)
from tests.integration.broker.transaction_conversation import Transactor
from tests.simulation.node import DELAY_S_MAX, SimulatedClient, Simulation, simulated
from tests.wire_client import WireClient

PRODUCE_KEY = 0
ACKS_ALL = -1
FLUSHED = {"flush.messages": "1"}
SETTINGS = {
    "offsets_topic_num_partitions": "1",
    "transaction_state_log_num_partitions": "1",
    "group_initial_rebalance_delay_ms": "0",
    "log_flush_interval_messages": "1",
    # The conversations stamp their records with the machine's time.
    "log_message_timestamp_after_max_ms": str((1 << 63) - 1),
}


class ImpatientClient(SimulatedClient):
    """Asks as the wire client does, and waits for a delivery there and back only, unless the API may park."""

    def __init__(self, simulation: Simulation, name: str) -> None:
        super().__init__(simulation, name, ListenerSecurity("PLAINTEXT"))
        self.asked: set[int] = set()

    def ask(self, request: Message, version: int, *, within_s: float = 3 * DELAY_S_MAX) -> Any:
        correlation_id = self.send(request, version)
        self._simulation.run_for(within_s)
        route = BY_API_KEY[self._sent[correlation_id][0]]
        assert correlation_id in self.answers or route.may_park, f"{route.name} parks"
        return self.receive(route.api_key, version, correlation_id)

    def send(self, request: Message, version: int) -> int:
        assert request.API_KEY is not None
        self.asked.add(request.API_KEY)
        return super().send(request, version)


def converse(client: WireClient) -> None:
    """Everything that makes an answer wait for the disk: all topics are synced before they answer."""
    topic = create_topic(client, "topic", partitions=2, configs=FLUSHED)
    produce_ok(client, topic, b"x", b"y")
    assert list_offset(client, topic, -1) == 2
    fetch(client, topic, 0)
    set_topic_config(client, topic, retention_ms="1000")
    assert delete_records(client, topic, 1).error_code == 0

    commit_ok(client, "offsets only", topic, {0: 1})
    assert committed_offset(client, "offsets only", topic) == 1
    delete_offsets(client, "offsets only", topic, 0)
    member = Member(client, "group")
    member.settle()
    member.heartbeat()
    member.leave()
    delete_group(client, "group")

    for new_protocol in (True, False):
        transactor = Transactor(client, "transaction", new_protocol=new_protocol)
        transactor.begin_session()
        transactor.send_ok(topic, b"z")
        transactor.commit()
    delete_topic(client, "topic")


def test_an_api_that_may_not_park_answers_as_soon_as_the_disk_has(tmp_path: Path) -> None:
    with simulated(tmp_path, 1, **SETTINGS) as simulation:
        client = ImpatientClient(simulation, "client")
        converse(cast(WireClient, client))
        for route in ROUTES:
            request: Any = request_class(route.api_key)()
            if route.api_key == PRODUCE_KEY:
                request.acks = ACKS_ALL
            client.ask(request, route.max_version)
        assert client.asked == set(BY_API_KEY)


def test_the_apis_that_may_park_do(tmp_path: Path) -> None:
    """Fetch waits for records, JoinGroup and SyncGroup for other members. Produce will wait for other replicas."""
    with simulated(tmp_path, 1, **{**SETTINGS, "group_initial_rebalance_delay_ms": "3000"}) as simulation:
        client = ImpatientClient(simulation, "client")
        wire = cast(WireClient, client)
        topic = create_topic(wire, "topic")
        member_id = client.ask(join_request("group"), JOIN_VERSION).member_id
        parked = [
            client.send(fetch_request(topic, {0: 0}, max_wait_ms=2000), 16),
            client.send(join_request("group", member_id), JOIN_VERSION),
        ]
        simulation.run_for(1)
        assert not set(parked) & client.answers.keys()
        producer = simulation.client("producer")
        assert producer.ask(produce_request(topic, {0: batch_of(b"x")}), 12).responses[0].partition_responses[0]
        assert parked[0] in client.answers
        assert parked[1] not in client.answers
        simulation.run_for(3)
        assert parked[1] in client.answers
