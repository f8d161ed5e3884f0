"""Each place of the broker feeds its metrics: a whole node with real sockets in the test's own process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from penstock.broker.network.endpoints import bind_all, close_all
from penstock.broker.network.server import Server
from penstock.core.metrics import Metrics
from penstock.metadata.listeners import Listener
from penstock.protocol.definitions.heartbeat import HeartbeatRequest
from penstock.protocol.definitions.metadata import MetadataRequest
from tests.integration.broker.conversation import (
    batch_of,
    create_topic,
    delete_topic,
    fetch,
    produce,
    produce_ok,
    produce_request,
)
from tests.integration.broker.group_conversation import Member, commit_ok
from tests.unit.broker.nodes import LISTENER_NAME, node_in
from tests.wire_client import WireClient


def observe(directory: Path, talk: Callable[[WireClient], None], **settings: str) -> Metrics:
    """What the metrics say after a client has talked to the node and hung up."""

    async def main() -> Metrics:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        with node_in(directory, named) as node:
            bound = bind_all([Listener(LISTENER_NAME, "127.0.0.1", 0)])
            server = Server(node)
            await server.listen(bound)
            try:

                def converse() -> None:
                    with WireClient(f"127.0.0.1:{bound[0].port}") as client:
                        talk(client)

                await asyncio.to_thread(converse)
                open_connections = node.metrics.gauge(
                    "kafka_server_socketservermetrics_connectioncount", "", listener=LISTENER_NAME
                )
                for _ in range(1000):
                    if not open_connections.value:
                        break
                    await asyncio.sleep(0.005)
            finally:
                server.close()
                close_all(bound)
            # What is read when it is asked for must be asked while the node is there.
            snapshot = Metrics()
            samples = list(node.metrics.samples())
            for sample in samples:
                snapshot.gauge(sample.name, "", **sample.labels).value = sample.value
            return snapshot

    return asyncio.run(main())


def test_connections_and_their_bytes(tmp_path: Path) -> None:
    metrics = observe(tmp_path, lambda client: client.ask(MetadataRequest(topics=[]), 12))
    prefix = "kafka_server_socketservermetrics_"
    assert metrics.value(prefix + "connectioncreation_total", listener=LISTENER_NAME) == 1
    assert metrics.value(prefix + "connectionclose_total", listener=LISTENER_NAME) == 1
    assert metrics.value(prefix + "connectioncount", listener=LISTENER_NAME) == 0
    assert metrics.value(prefix + "incomingbyte_total", listener=LISTENER_NAME) > 20
    assert metrics.value(prefix + "outgoingbyte_total", listener=LISTENER_NAME) > 40


def test_requests_by_api_with_errors_and_latency(tmp_path: Path) -> None:
    def talk(client: WireClient) -> None:
        topic = create_topic(client, "topic")
        for _ in range(3):
            produce_ok(client, topic, b"x")
        assert produce(client, topic, b"not a batch").error_code
        assert fetch(client, topic, 99).error_code
        client.ask(HeartbeatRequest(group_id="group", member_id="unknown"), 4)
        client.send(produce_request(topic, {0: batch_of(b"x")}, acks=0), 12)
        client.ask(MetadataRequest(topics=[]), 12)

    metrics = observe(tmp_path, talk)
    prefix = "kafka_network_requestmetrics_"
    for request, count in (("CreateTopics", 1), ("Produce", 5), ("Fetch", 1), ("Heartbeat", 1), ("Metadata", 1)):
        assert metrics.value(prefix + "requests_total", request=request) == count, request
        assert metrics.value(prefix + "totaltime_seconds_count", request=request) == count, request
    errors = {
        "Produce": "INVALID_RECORD",
        "Fetch": "OFFSET_OUT_OF_RANGE",
        "Heartbeat": "UNKNOWN_MEMBER_ID",
    }
    for request, error in errors.items():
        assert metrics.value(prefix + "errors_total", request=request, error=error) == 1, request


def test_records_in_and_out_by_topic(tmp_path: Path) -> None:
    def talk(client: WireClient) -> None:
        topic = create_topic(client, "topic")
        produce_ok(client, topic, b"x", b"y", b"z")
        produce_ok(client, topic, b"x")
        fetch(client, topic, 0)
        produce_ok(client, create_topic(client, "deleted"), b"x")
        delete_topic(client, "deleted")

    metrics = observe(tmp_path, talk)
    prefix = "kafka_server_brokertopicmetrics_"
    size = len(batch_of(b"x", b"y", b"z")) + len(batch_of(b"x"))
    assert metrics.value(prefix + "messagesin_total", topic="topic") == 4
    assert metrics.value(prefix + "bytesin_total", topic="topic") == size
    assert metrics.value(prefix + "bytesout_total", topic="topic") == size
    assert metrics.value("kafka_log_log_logstartoffset", topic="topic", partition="0") == 0
    assert metrics.value("kafka_log_log_logendoffset", topic="topic", partition="0") == 4
    assert not any(sample.labels.get("topic") == "deleted" for sample in metrics.samples())


def test_rounds_of_fsync(tmp_path: Path) -> None:
    def talk(client: WireClient) -> None:
        topic = create_topic(client, "topic", configs={"flush.messages": "1"})
        produce_ok(client, topic, b"x")
        produce_ok(client, topic, b"x")

    metrics = observe(tmp_path, talk)
    assert metrics.value("kafka_log_logflushstats_logflushtime_seconds_count") == 2


def test_groups_their_rebalances_commits_and_loads(tmp_path: Path) -> None:
    def talk(client: WireClient) -> None:
        topic = create_topic(client, "topic")
        member = Member(client, "group")
        member.settle()
        commit_ok(client, "group", topic, {0: 1}, member_id=member.member_id, generation_id=member.generation_id)
        commit_ok(client, "others", topic, {0: 1})

    metrics = observe(tmp_path, talk, group_initial_rebalance_delay_ms="0", offsets_topic_num_partitions="1")
    prefix = "kafka_server_groupcoordinatormetrics_"
    assert metrics.value(prefix + "groupcompletedrebalance_total") == 1
    assert metrics.value(prefix + "offsetcommit_total") == 2
    assert metrics.value(prefix + "partitionloadtime_seconds_count") == 1
    assert metrics.value("kafka_coordinator_group_groupmetadatamanager_numgroups") == 2
    assert metrics.value("kafka_coordinator_group_groupmetadatamanager_nummembers") == 1
