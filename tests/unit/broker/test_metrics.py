"""Each place of the broker feeds its metrics: a whole node with real sockets in the test's own process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import uvloop

from penstock.broker.derived_metrics import watch_node
from penstock.broker.network.endpoints import bind_all, close_all
from penstock.broker.network.server import Server
from penstock.broker.node import Node
from penstock.coordinator.transaction import TransactionState
from penstock.core.metrics import Metrics
from penstock.log.producer_state import ProducerEntry
from penstock.metadata.listeners import Listener
from penstock.protocol.definitions.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
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
from tests.integration.broker.transaction_conversation import Transactor
from tests.unit.broker.nodes import LISTENER_NAME, node_in
from tests.wire_client import WireClient

PRODUCE_KEY, METADATA_KEY = 0, 3


def observe(
    directory: Path,
    talk: Callable[[WireClient], None],
    then: Callable[[Node], None] = lambda node: None,
    **settings: str,
) -> Metrics:
    """What the metrics say after a client has talked to the node and hung up, and `then` was done."""

    async def main() -> Metrics:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        with node_in(directory, named) as node:
            node.request_metrics.count_sizes()
            watch_node(node, node.metrics)
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
                for _ in range(12_000):
                    if not open_connections.value:
                        break
                    await asyncio.sleep(0.005)
            finally:
                server.close()
                close_all(bound)
            then(node)
            # What is read when it is asked for must be asked while the node is there.
            snapshot = Metrics()
            samples = list(node.metrics.samples())
            for sample in samples:
                snapshot.gauge(sample.name, "", **sample.labels).value = sample.value
            return snapshot

    # The broker's own loop, whose time counts whole milliseconds.
    return uvloop.run(main())


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
        assert metrics.value(prefix + "requestbytes_total", request=request) > 0, request
        assert metrics.value(prefix + "responsebytes_total", request=request) > 0, request
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
    assert metrics.value("kafka_topic_partition_current_offset", topic="topic", partition="0") == 4
    assert metrics.value("kafka_topic_partition_oldest_offset", topic="topic", partition="0") == 0
    assert metrics.value("kafka_log_log_size", topic="topic", partition="0") == size
    assert metrics.value("kafka_log_log_numlogsegments", topic="topic", partition="0") == 1
    assert metrics.value("kafka_topic_partitions", topic="topic") == 1
    assert metrics.value("kafka_server_replicamanager_leadercount") == 1
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
        commit_ok(client, "others", topic, {0: 2})
        produce_ok(client, topic, b"x", b"y")

    metrics = observe(tmp_path, talk, group_initial_rebalance_delay_ms="0", offsets_topic_num_partitions="1")
    prefix = "kafka_server_groupcoordinatormetrics_"
    assert metrics.value(prefix + "groupcompletedrebalance_total") == 1
    assert metrics.value(prefix + "offsetcommit_total") == 2
    assert metrics.value(prefix + "partitionloadtime_seconds_count") == 1
    assert metrics.value("kafka_consumergroup_members", consumergroup="group") == 1
    assert metrics.value("kafka_consumergroup_members", consumergroup="others") == 0
    for group, offset, lag in (("group", 1, 1), ("others", 2, 0)):
        place = {"consumergroup": group, "topic": "topic", "partition": "0"}
        assert metrics.value("kafka_consumergroup_current_offset", **place) == offset
        assert metrics.value("kafka_consumergroup_lag", **place) == lag
    assert metrics.value("kafka_coordinator_group_groupmetadatamanager_numgroups") == 2
    assert metrics.value("kafka_coordinator_group_groupmetadatamanager_nummembers") == 1


def test_sizes_of_requests_and_responses_are_those_of_the_connection(tmp_path: Path) -> None:
    """Also when requests of several APIs come in, and are answered, together."""

    def talk(client: WireClient) -> None:
        topic = create_topic(client, "topic")
        requests = [
            (PRODUCE_KEY, produce_request(topic, {0: batch_of(b"x")})),
            (PRODUCE_KEY, produce_request(topic, {0: batch_of(b"yy")})),
            (METADATA_KEY, MetadataRequest(topics=[])),
            (PRODUCE_KEY, produce_request(topic, {0: batch_of(b"zzz")})),
        ]
        sent = [(api_key, client.send(request, 12)) for api_key, request in requests]
        for api_key, correlation_id in sent:
            client.receive(api_key, 12, correlation_id)

    metrics = observe(tmp_path, talk)
    prefix = "kafka_network_requestmetrics_"
    received = sum(sample.value for sample in metrics.samples() if sample.name == prefix + "requestbytes_total")
    sent = sum(sample.value for sample in metrics.samples() if sample.name == prefix + "responsebytes_total")
    connections = "kafka_server_socketservermetrics_"
    assert received == metrics.value(connections + "incomingbyte_total", listener=LISTENER_NAME)
    assert sent == metrics.value(connections + "outgoingbyte_total", listener=LISTENER_NAME)


def test_latency_is_finer_than_the_loops_milliseconds(tmp_path: Path) -> None:
    metrics = observe(tmp_path, lambda client: client.ask(MetadataRequest(topics=[]), 12))
    took_ms = 1000 * metrics.value("kafka_network_requestmetrics_totaltime_seconds_sum", request="Metadata")
    assert abs(took_ms - round(took_ms)) > 1e-6


def test_transactions_open_and_ended(tmp_path: Path) -> None:
    def talk(client: WireClient) -> None:
        topic = create_topic(client, "topic")
        ended = Transactor(client, "ended").begin_session()
        ended.send_ok(topic, b"x")
        ended.commit()
        Transactor(client, "open").begin_session().send_ok(topic, b"y")

    def pass_time(node: Node) -> None:
        time.sleep(0.002)

    metrics = observe(tmp_path, talk, pass_time, transaction_state_log_num_partitions="2")
    assert metrics.value("penstock_transactions", state="Ongoing") == 1
    assert metrics.value("penstock_transactions", state="CompleteCommit") == 1
    assert metrics.value("penstock_transactions", state="Empty") == 0
    assert 0 < metrics.value("penstock_transactions_oldest_open_seconds") < 3600
    assert metrics.value("penstock_transactions_hanging") == 0
    assert metrics.value("kafka_server_replicamanager_partitionswithlatetransactionscount") == 0


def test_transactions_that_hang(tmp_path: Path) -> None:
    """Open in a partition, and unknown to the coordinator; and open for far too long."""

    def talk(client: WireClient) -> None:
        topic = create_topic(client, "topic", partitions=2)
        Transactor(client, "known").begin_session().send_ok(topic, b"y")

    def hang(node: Node) -> None:
        state = node.topics.partition("topic", 1).log.producer_state
        state.entries[99] = ProducerEntry(0, (), last_seen_ms=1)
        state.transactions.begin(99, 0)

    metrics = observe(tmp_path, talk, hang, transaction_state_log_num_partitions="2")
    assert metrics.value("penstock_transactions", state="Ongoing") == 1
    assert metrics.value("penstock_transactions_hanging") == 1
    assert metrics.value("kafka_server_replicamanager_partitionswithlatetransactionscount") == 1


def test_groups_of_a_broker_that_has_just_started_are_loaded_for_the_scrape(tmp_path: Path) -> None:
    def commit(client: WireClient) -> None:
        topic = create_topic(client, "topic")
        produce_ok(client, topic, b"x", b"y")
        commit_ok(client, "group", topic, {0: 1})

    observe(tmp_path, commit)
    metrics = observe(tmp_path, lambda client: None)
    assert metrics.value("kafka_consumergroup_lag", consumergroup="group", topic="topic", partition="0") == 1


def test_clients_above_a_quota(tmp_path: Path) -> None:
    def talk(client: WireClient) -> None:
        topic = create_topic(client, "topic")
        entity = RequestEntityData(entity_type="client-id", entity_name=None)
        quota = OpData(key="producer_byte_rate", value=10_000.0, remove=False)
        client.ask(
            AlterClientQuotasRequest(entries=[RequestEntryData(entity=[entity], ops=[quota])], validate_only=False), 1
        )
        produce_ok(client, topic, bytes(115_000))

    metrics = observe(tmp_path, talk)
    assert metrics.value("penstock_throttled_requests_total", request="Produce") == 1
    assert metrics.value("penstock_throttle_seconds_total", request="Produce") > 1


def test_connections_that_are_refused(tmp_path: Path) -> None:
    def refuse(node: Node) -> None:
        assert node.metrics.value("penstock_connections_refused_total", reason="rate") == 0

    def talk(client: WireClient) -> None:
        with WireClient(f"127.0.0.1:{client.socket.getpeername()[1]}") as second:
            assert second.is_closed_by_peer()

    metrics = observe(tmp_path, talk, refuse, max_connections="1")
    assert metrics.value("penstock_connections_refused_total", reason="limit") == 1


def test_the_states_of_transactions_are_those_of_the_coordinator(tmp_path: Path) -> None:
    metrics = observe(tmp_path, lambda client: None)
    served = {sample.labels["state"] for sample in metrics.samples() if sample.name == "penstock_transactions"}
    assert served == {state.label for state in TransactionState if state <= TransactionState.COMPLETE_ABORT}


def test_a_scrape_of_a_new_broker_imports_nothing(tmp_path: Path) -> None:
    """What is imported on first use is slow, and requests wait meanwhile."""
    program = """
import asyncio, sys
from pathlib import Path
from penstock.broker.derived_metrics import watch_node
from penstock.monitoring.http_server import text_of
from penstock.monitoring.process_metrics import watch_process
from tests.unit.broker.nodes import node_in

async def main():
    with node_in(Path(sys.argv[1])) as node:
        node.request_metrics.count_sizes()
        watch_node(node, node.metrics)
        watch_process(node.metrics)
        from penstock.broker import router
        before = set(sys.modules)
        assert await text_of(node.metrics)
        print(sorted(set(sys.modules) - before))

asyncio.run(main())
"""
    ended = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"
