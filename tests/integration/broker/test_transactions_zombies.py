"""Two producers, one transactional id, at the same time: what the older one wrote is whole and from before, or nowhere.

Every race has a zombie that sends and commits while its successor takes over. The races must be close: a run in which
the zombie never lost a transaction that it had begun to write, or never won one, shows nothing. PENSTOCK_ZOMBIE_RACES
sets how many there are.
"""

from __future__ import annotations

import os
import random
import threading
import time
from dataclasses import dataclass, field
from uuid import uuid4

import confluent_kafka
import pytest

from penstock.protocol.error_codes import ErrorCode
from penstock.testing import Broker
from tests.integration.broker.conftest import NewTopic
from tests.integration.broker.conversation import Topic
from tests.integration.broker.transaction_conversation import Transactor, committed_values
from tests.wire_client import WireClient

RACES = int(os.environ.get("PENSTOCK_ZOMBIE_RACES", "60"))
PARTITIONS = 2

# What a fenced producer may be told, depending on what it asks and on how far its fencing has got.
FENCED = {
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS,
}


@dataclass
class Zombie:
    """Commits transactions of one record for each partition until it is told that it is fenced."""

    transactor: Transactor
    topic: Topic
    name: str
    written: set[bytes] = field(default_factory=set)
    committed: set[bytes] = field(default_factory=set)
    codes: set[int] = field(default_factory=set)

    def run(self) -> None:
        for number in range(1000):
            value = f"{self.name} {number}".encode()
            for partition in range(PARTITIONS):
                code = self.transactor.send(self.topic, value, partition=partition)
                if code:
                    self.codes.add(code)
                    return
                self.written.add(value)
            code = self.transactor.end(commits=True)
            if code:
                self.codes.add(code)
                return
            self.committed.add(value)


@pytest.mark.parametrize("zombie_is_new", [True, False], ids=["KIP-890 zombie", "classic zombie"])
@pytest.mark.parametrize("successor_is_new", [True, False], ids=["KIP-890 successor", "classic successor"])
def test_a_zombie_is_kept_out(
    shared_broker: Broker, client: WireClient, new_topic: NewTopic, zombie_is_new: bool, successor_is_new: bool
) -> None:
    chance = random.Random(f"{zombie_is_new} {successor_is_new}")
    topic = new_topic(partitions=PARTITIONS)
    transactional_id = uuid4().hex
    committed: list[bytes] = []
    lost = won = 0
    with WireClient(shared_broker.bootstrap_servers) as zombie_client:
        for race in range(RACES):
            transactor = Transactor(zombie_client, transactional_id, new_protocol=zombie_is_new).begin_session()
            zombie = Zombie(transactor, topic, f"zombie {race}")
            thread = threading.Thread(target=zombie.run)
            thread.start()
            time.sleep(chance.random() * 0.01)
            successor = Transactor(client, transactional_id, new_protocol=successor_is_new).begin_session()
            value = f"successor {race}".encode()
            for partition in range(PARTITIONS):
                successor.send_ok(topic, value, partition=partition)
            successor.commit()
            thread.join()
            assert zombie.codes <= FENCED
            committed += sorted(zombie.committed, key=lambda one: int(one.split()[-1]))
            committed.append(value)
            lost += zombie.written > zombie.committed
            won += bool(zombie.committed)
    for partition in range(PARTITIONS):
        assert committed_values(client, topic, partition=partition) == committed
    assert lost >= RACES // 10, "the zombies were never in the middle of a transaction"
    assert won >= RACES // 10, "the zombies never came to anything before they were fenced"


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
