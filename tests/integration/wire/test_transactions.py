"""Transactions that several clients share, against Penstock and Apache Kafka."""

from __future__ import annotations

import json
import pickle
from uuid import uuid4

import pytest

from penstock.core.errors import ProducerFenced
from penstock.core.ids import OffsetAndMetadata, ProducerIdentity, TopicPartition
from penstock.protocol.definitions.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from penstock.wire.client import FetchOptions, WireClient
from penstock.wire.connection import Address, Connection
from penstock.wire.settings import WireSettings
from tests.clients.waiting import eventually
from tests.conftest import RunningBroker
from tests.integration.wire.wire_records import batch_of, committed_values, new_topic


def completes(client: WireClient, transactional_id: str) -> bool:
    """Brokers respond to EndTxn when the outcome is decided; the markers follow, and readers wait for them."""

    def is_complete() -> bool:
        described = client.describe_transaction(transactional_id)
        return described is not None and described.state.startswith("Complete")

    return eventually(is_complete)


@pytest.mark.parametrize("commit", [True, False])
def test_one_transaction_shared_by_two_clients(client: WireClient, servers: str, commit: bool) -> None:
    topic, name = new_topic(servers, 2), f"shared-{uuid4().hex}"
    group, progress = f"{name}.batches", TopicPartition(topic, 0)
    producer = client.init_producer_id(name)
    settings = pickle.loads(pickle.dumps({"bootstrap.servers": servers}))
    with WireClient(settings) as task_1, WireClient(settings) as task_2:
        senders = [task.sender(producer=producer, transactional_id=name) for task in (task_1, task_2)]
        for number in range(10):
            for index, sender in enumerate(senders):
                sender.send(TopicPartition(topic, index), batch_of(f"{index}-{number}".encode()))
        for sender in senders:
            sender.flush()
    described = client.describe_transaction(name)
    assert described is not None
    assert (described.state, described.producer) == ("Ongoing", producer)
    assert set(described.partitions) >= {TopicPartition(topic, 0), TopicPartition(topic, 1)}
    assert client.list_offsets({progress: "latest"}, isolation_level="read_committed")[progress].offset == 0
    client.txn_offset_commit(name, producer, group, {progress: OffsetAndMetadata(8, json.dumps({"batch": 7}))})
    assert client.offset_fetch(group, [progress], require_stable=False) == {}

    after = client.end_txn(name, producer, commit=commit)

    assert after == ProducerIdentity(producer.producer_id, producer.epoch + 1)  # KIP-890
    assert completes(client, name)
    expected = sorted(f"{index}-{number}".encode() for index in range(2) for number in range(10)) if commit else []
    assert committed_values(servers, topic, len(expected) or 1) == expected
    committed = client.offset_fetch(group, [progress])
    assert committed == ({progress: OffsetAndMetadata(8, '{"batch": 7}')} if commit else {})
    fetched = client.fetch(progress, 0, FetchOptions(isolation_level="read_committed"))
    assert fetched.aborted == ([] if commit else [(producer.producer_id, 0)])

    # The next transaction goes on with the new epoch, and sequences from 0.
    sender = client.sender(producer=after, transactional_id=name)
    sender.send(progress, batch_of(b"next"))
    sender.flush()
    client.end_txn(name, after, commit=True)
    assert completes(client, name)
    assert b"next" in committed_values(servers, topic, len(expected) + 1)


def test_a_new_producer_fences_the_former_one(client: WireClient, servers: str) -> None:
    partition, name = TopicPartition(new_topic(servers), 0), f"fenced-{uuid4().hex}"
    first = client.init_producer_id(name)
    sender = client.sender(producer=first, transactional_id=name)
    sender.send(partition, batch_of(b"of the first run"))
    sender.flush()
    with WireClient({"bootstrap.servers": servers}) as later:
        second = later.init_producer_id(name)
        assert second.epoch > first.epoch
        sender.send(partition, batch_of(b"too late"))
        with pytest.raises(ProducerFenced, match=str(partition)):
            sender.flush()
        with pytest.raises(ProducerFenced, match=name):
            client.end_txn(name, first, commit=True)
        with pytest.raises(ProducerFenced, match=name):
            client.init_producer_id(name, current=first)
        own = later.sender(producer=second, transactional_id=name)
        own.send(partition, batch_of(b"of the second run"))
        own.flush()
        later.end_txn(name, second, commit=True)
    assert committed_values(servers, partition.topic, 2) == [b"of the second run"]


def test_an_empty_transaction_can_be_aborted(client: WireClient) -> None:
    name = f"empty-{uuid4().hex}"
    producer = client.init_producer_id(name)
    after = client.end_txn(name, producer, commit=False)
    assert after.producer_id == producer.producer_id


@pytest.mark.slow
def test_transactions_of_the_older_version(apache_kafka: RunningBroker) -> None:
    """Below transaction.version 2 partitions and groups are added by hand, and the epoch stays."""
    servers = apache_kafka.bootstrap_servers
    topic, name = new_topic(servers, 2), f"older-{uuid4().hex}"
    set_transaction_version(apache_kafka, 1)
    try:
        with WireClient({"bootstrap.servers": servers}) as client, WireClient({"bootstrap.servers": servers}) as task:
            assert client.transaction_version() == 1
            producer = client.init_producer_id(name)
            sequences: dict[TopicPartition, int] = {}
            for outcome in (True, False):
                sender = task.sender(producer=producer, transactional_id=name, first_sequences=sequences)
                sender.send(TopicPartition(topic, 0), batch_of(b"kept" if outcome else b"dropped"))
                sender.send(TopicPartition(topic, 1), batch_of(b"kept" if outcome else b"dropped"))
                sender.flush()
                offset = {TopicPartition(topic, 0): OffsetAndMetadata(int(outcome))}
                client.txn_offset_commit(name, producer, name, offset)
                assert client.end_txn(name, producer, commit=outcome) == producer
                sequences = sender.next_sequences
            assert client.offset_fetch(name) == {TopicPartition(topic, 0): OffsetAndMetadata(1)}
        assert committed_values(servers, topic, 3) == [b"kept", b"kept"]
    finally:
        set_transaction_version(apache_kafka, 2)


def set_transaction_version(broker: RunningBroker, level: int) -> None:
    settings = WireSettings.parse({"bootstrap.servers": broker.bootstrap_servers})
    connection = Connection(Address("127.0.0.1", broker.port), settings, None)
    upgrade, safe_downgrade = 1, 2
    update = FeatureUpdateKey(
        feature="transaction.version", max_version_level=level, upgrade_type=upgrade if level == 2 else safe_downgrade
    )
    request = UpdateFeaturesRequest(timeout_ms=10_000, feature_updates=[update])
    response = connection.ask(request, connection.version_for(UpdateFeaturesRequest, at_least=1))
    assert response.error_code == 0, response
    connection.close()

    def is_known() -> bool:
        with WireClient({"bootstrap.servers": broker.bootstrap_servers}) as client:
            return client.transaction_version() == level

    assert eventually(is_known)
