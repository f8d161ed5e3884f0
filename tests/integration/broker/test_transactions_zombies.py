"""Two producers, one transactional id: a slice of `tests.robustness.zombie_races`, and what librdkafka makes of it."""

from __future__ import annotations

from uuid import uuid4

import confluent_kafka
import pytest

from penstock.testing import Broker
from tests.integration.broker.conftest import NewTopic
from tests.integration.broker.transaction_conversation import committed_values
from tests.robustness.zombie_races import PAIRINGS, PARTITIONS, Pairing, run_races
from tests.wire_client import WireClient

RACES = 60


@pytest.mark.parametrize("pairing", PAIRINGS, ids=str)
def test_a_zombie_is_kept_out(shared_broker: Broker, pairing: Pairing) -> None:
    report = run_races(shared_broker.bootstrap_servers, pairing, races=RACES, seed=890)

    assert report.holds, report.line()
    assert report.is_close, f"the races show nothing: {report.line()}"


def test_librdkafka_notices_that_it_is_fenced(shared_broker: Broker, client: WireClient, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=PARTITIONS)
    transactional_id = uuid4().hex

    def producer() -> confluent_kafka.Producer:
        made = confluent_kafka.Producer(
            {
                "bootstrap.servers": shared_broker.bootstrap_servers,
                "transactional.id": transactional_id,
                "linger.ms": 0,
                "error_cb": lambda error: None,
            }
        )
        made.init_transactions(30)
        return made

    zombie = producer()
    zombie.begin_transaction()
    for partition in range(PARTITIONS):
        zombie.produce(topic.name, b"zombie", partition=partition)
    zombie.flush(30)
    successor = producer()
    successor.begin_transaction()
    successor.produce(topic.name, b"successor", partition=0)
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        zombie.commit_transaction(30)
    assert caught.value.args[0].fatal() or caught.value.args[0].txn_requires_abort()
    successor.commit_transaction(30)
    assert committed_values(client, topic) == [b"successor"]
    assert committed_values(client, topic, partition=1) == []
