"""A broker that is killed and restarted."""

from __future__ import annotations

import threading

import pytest

from penstock.core.errors import BrokerUnreachable
from penstock.core.ids import TopicPartition
from penstock.testing import Broker
from penstock.wire.client import WireClient
from tests.integration.wire.wire_records import batch_of, committed_values, new_topic, values_of


def kill_and_start(broker: Broker) -> None:
    broker.kill()
    broker.start()


def test_a_killed_broker_costs_nothing_but_time() -> None:
    with Broker() as broker:
        partition = TopicPartition(new_topic(broker.bootstrap_servers), 0)
        expected = [str(number).encode() for number in range(400)]
        settings = {"bootstrap.servers": broker.bootstrap_servers, "default.api.timeout.ms": "30000"}
        with WireClient(settings) as writer, WireClient(settings) as reader:
            sender = writer.sender(producer=writer.init_producer_id())
            values: list[bytes | None] = []
            answers = reader.fetch_ahead(partition, 0, len(expected))
            for start in range(0, 400, 100):
                restart = threading.Thread(target=kill_and_start, args=[broker])
                for number in range(start, start + 100):
                    sender.send(partition, batch_of(expected[number]))
                    if number == start + 50:
                        restart.start()
                assert len(sender.flush()[partition]) == 100
                while len(values) < start + 100:
                    values += values_of(next(answers).records)
                restart.join()
            answers.close()
        assert values == expected


def test_a_transaction_survives_a_killed_broker() -> None:
    with Broker() as broker:
        partition = TopicPartition(new_topic(broker.bootstrap_servers), 0)
        with WireClient({"bootstrap.servers": broker.bootstrap_servers}) as client:
            producer = client.init_producer_id("survivor")
            sender = client.sender(producer=producer, transactional_id="survivor")
            sender.send(partition, batch_of(b"before"))
            sender.flush()
            kill_and_start(broker)
            sender.send(partition, batch_of(b"after"))
            sender.flush()
            kill_and_start(broker)
            client.end_txn("survivor", producer, commit=True)
        assert committed_values(broker.bootstrap_servers, partition.topic, 2) == [b"after", b"before"]


def test_a_broker_that_stays_away_is_given_up_in_time() -> None:
    with Broker() as broker:
        partition = TopicPartition(new_topic(broker.bootstrap_servers), 0)
        # The first server never answers; the second one does.
        servers = f"127.0.0.1:1,{broker.bootstrap_servers}"
        with WireClient({"bootstrap.servers": servers, "default.api.timeout.ms": "800"}) as client:
            assert client.list_offsets({partition: "latest"})[partition].offset == 0
            broker.kill()
            for call in (
                lambda: client.list_offsets({partition: "latest"}),
                lambda: client.fetch(partition, 0),
                lambda: client.produce({partition: batch_of(b"x")}),
                lambda: client.init_producer_id("nobody"),
            ):
                with pytest.raises(BrokerUnreachable, match=r"cannot connect|closed|lost"):
                    call()
