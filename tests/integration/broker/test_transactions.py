"""Transactions over the wire, in the classic protocol and in KIP-890's: outcomes, isolation, Kafka's error codes."""

from __future__ import annotations

import time
from typing import Any
from uuid import uuid4

import pytest

from penstock.core.ids import ProducerIdentity, TopicPartition
from penstock.protocol.definitions.add_offsets_to_txn import AddOffsetsToTxnRequest
from penstock.protocol.definitions.api_versions import ApiVersionsRequest
from penstock.protocol.definitions.describe_producers import DescribeProducersRequest, TopicRequest
from penstock.protocol.definitions.list_transactions import ListTransactionsRequest
from penstock.protocol.definitions.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from penstock.protocol.error_codes import ErrorCode
from penstock.testing import Broker
from tests.integration.broker.conftest import NewTopic
from tests.integration.broker.conversation import (
    FETCH_VERSION,
    Topic,
    batch_of,
    batches_in,
    create_topic,
    delete_topic,
    fetch,
    is_silent,
    partitions_of,
    produce,
    produce_request,
)
from tests.integration.broker.transaction_conversation import (
    NEW_END,
    NEW_PRODUCE,
    OLD_END,
    OLD_PRODUCE,
    Transactor,
    add_partitions,
    committed_fetch,
    committed_values,
    describe,
    end,
    fetch_committed,
    init,
    last_stable_offset,
    transactional_batch,
    visible_values,
)
from tests.wire_client import WireClient, encode_request, framed

both_protocols = pytest.mark.parametrize("new_protocol", [True, False], ids=["KIP-890", "classic"])


@pytest.fixture
def transactional_id() -> str:
    return f"id-{uuid4().hex}"


@both_protocols
def test_a_commit_shows_everything_at_once_and_an_abort_nothing(
    client: WireClient, new_topic: NewTopic, transactional_id: str, new_protocol: bool
) -> None:
    first, second = new_topic(partitions=2), new_topic()
    producer = Transactor(client, transactional_id, new_protocol=new_protocol).begin_session()

    producer.send_ok(first, b"a", b"b")
    producer.send_ok(first, b"c", partition=1)
    producer.send_ok(second, b"d")
    assert committed_values(client, first) == committed_values(client, second) == []
    assert len(list(batches_in(fetch(client, first)))) == 1
    assert last_stable_offset(client, first) == 0
    producer.commit()
    assert committed_values(client, first) == [b"a", b"b"]
    assert committed_values(client, first, partition=1) == [b"c"]
    assert committed_values(client, second) == [b"d"]
    assert last_stable_offset(client, first) == 3, "behind the marker"

    producer.send_ok(first, b"never")
    producer.send_ok(second, b"never")
    producer.abort()
    producer.send_ok(second, b"e")
    producer.commit()
    assert committed_values(client, first) == [b"a", b"b"]
    assert committed_values(client, second) == [b"d", b"e"]
    data = fetch_committed(client, second)
    assert [(a.producer_id, a.first_offset) for a in data.aborted_transactions or []] == [
        (producer.producer.producer_id, 2)
    ]


def test_open_transactions_hold_back_what_came_later(client: WireClient, new_topic: NewTopic) -> None:
    topic = new_topic()
    early, late = (Transactor(client, uuid4().hex).begin_session() for _ in range(2))
    early.send_ok(topic, b"early")
    late.send_ok(topic, b"late")
    produce(client, topic, batch_of(b"plain"))
    late.commit()
    assert committed_values(client, topic) == []
    assert last_stable_offset(client, topic) == 0
    early.abort()
    assert committed_values(client, topic) == [b"late", b"plain"]


def test_a_waiting_reader_is_woken_by_the_end_of_a_transaction(
    client: WireClient, other_client: WireClient, new_topic: NewTopic, transactional_id: str
) -> None:
    topic = new_topic()
    producer = Transactor(client, transactional_id).begin_session()
    producer.send_ok(topic, b"x" * 5000)
    request = committed_fetch(topic, max_wait_ms=600_000, min_bytes=4000)
    waiting = other_client.send(request, FETCH_VERSION)
    producer.send_ok(topic, b"more, which nobody may read yet")
    assert is_silent(other_client)
    producer.commit()
    data = partitions_of(other_client.receive(1, FETCH_VERSION, waiting))[0]
    assert len(visible_values(data)) == 2


@both_protocols
def test_a_second_producer_fences_the_first(
    client: WireClient, new_topic: NewTopic, transactional_id: str, new_protocol: bool
) -> None:
    topic = new_topic(partitions=2)
    zombie = Transactor(client, transactional_id, new_protocol=new_protocol).begin_session()
    zombie.send_ok(topic, b"zombie")
    assert init(client, transactional_id).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    successor = Transactor(client, transactional_id, new_protocol=new_protocol).begin_session()
    assert successor.producer.producer_id == zombie.producer.producer_id
    assert successor.producer.epoch > zombie.producer.epoch

    fenced = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)
    assert zombie.send(topic, b"zombie") in fenced
    assert zombie.send(topic, b"zombie", partition=1) in fenced
    assert zombie.send(topic, b"zombie", partition=1, version=OLD_PRODUCE) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert zombie.end(commits=True) == ErrorCode.PRODUCER_FENCED
    assert end(client, transactional_id, zombie.producer, True, 1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    successor.send_ok(topic, b"successor")
    assert zombie.send(topic, b"zombie") in fenced
    successor.commit()
    assert committed_values(client, topic) == [b"successor"]
    assert committed_values(client, topic, partition=1) == []


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (10, ErrorCode.INVALID_TXN_STATE),
        (11, ErrorCode.TRANSACTION_ABORTABLE),
        (12, ErrorCode.NONE),
        (13, ErrorCode.NONE),
    ],
)
def test_a_partition_outside_the_transaction(
    client: WireClient, new_topic: NewTopic, transactional_id: str, version: int, code: ErrorCode
) -> None:
    """Before KIP-890's second part it must have been added; from then on it is added by the write."""
    topic = new_topic()
    producer = Transactor(client, transactional_id).begin_session()
    assert producer.send(topic, b"value", version=version) == code
    expected = "Empty" if code else "Ongoing"
    assert describe(client, transactional_id).transaction_state == expected
    assert len(list(batches_in(fetch(client, topic)))) == (not code)


def test_a_delayed_batch_cannot_enter_the_next_transaction(
    client: WireClient, new_topic: NewTopic, transactional_id: str
) -> None:
    topic, elsewhere = new_topic(), new_topic()
    producer = Transactor(client, transactional_id).begin_session()
    producer.send_ok(topic, b"one")
    delayed = produce_request(topic, {0: transactional_batch([b"delayed"], producer.producer, 1)})
    delayed_elsewhere = produce_request(elsewhere, {0: transactional_batch([b"delayed"], producer.producer, 0)})
    old = producer.producer
    producer.commit()
    for request in (delayed, delayed_elsewhere):
        request.transactional_id = transactional_id
        for version in (OLD_PRODUCE, NEW_PRODUCE):
            answer = client.ask(request, version).responses[0].partition_responses[0]
            assert answer.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    producer.send_ok(topic, b"two")
    assert end(client, transactional_id, old, False).error_code == ErrorCode.PRODUCER_FENCED, "a delayed EndTxn too"
    producer.commit()
    assert committed_values(client, topic) == [b"one", b"two"]


def test_a_repeated_end_gets_the_same_answer(client: WireClient, new_topic: NewTopic, transactional_id: str) -> None:
    topic = new_topic()
    producer = Transactor(client, transactional_id).begin_session()
    before = producer.producer
    producer.send_ok(topic, b"value")
    first = end(client, transactional_id, before, True)
    again = end(client, transactional_id, before, True)
    assert first == again
    assert (first.error_code, first.producer_id, first.producer_epoch) == (0, before.producer_id, before.epoch + 1)
    assert end(client, transactional_id, before, False).error_code == ErrorCode.INVALID_TXN_STATE


def test_a_repeated_batch_is_written_once(client: WireClient, new_topic: NewTopic, transactional_id: str) -> None:
    topic = new_topic()
    producer = Transactor(client, transactional_id).begin_session()
    for _ in range(2):
        request = produce_request(topic, {0: transactional_batch([b"once"], producer.producer, 0)})
        request.transactional_id = transactional_id
        answer = client.ask(request, NEW_PRODUCE).responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
    producer.commit()
    assert committed_values(client, topic) == [b"once"]


def test_transactional_batches_need_a_transactional_id(client: WireClient, new_topic: NewTopic) -> None:
    topic = new_topic()
    answer = produce(client, topic, transactional_batch([b"value"], ProducerIdentity(1, 0), 0))
    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_one_request_has_one_producer(client: WireClient, new_topic: NewTopic, transactional_id: str) -> None:
    topic = new_topic(partitions=2)
    producer = Transactor(client, transactional_id).begin_session()
    stranger = ProducerIdentity(producer.producer.producer_id + 1, 0)
    request = produce_request(
        topic,
        {0: transactional_batch([b"a"], producer.producer, 0), 1: transactional_batch([b"b"], stranger, 0)},
    )
    request.transactional_id = transactional_id
    answers = client.ask(request, NEW_PRODUCE).responses[0].partition_responses
    assert {answer.error_code for answer in answers} == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}


def test_a_producer_in_a_transaction_must_not_write_outside_it(
    client: WireClient, new_topic: NewTopic, transactional_id: str
) -> None:
    from tests.record_batches import Record, encode_batch

    topic = new_topic()
    producer = Transactor(client, transactional_id).begin_session()
    producer.send_ok(topic, b"inside")
    outside = encode_batch([Record(b"outside")], producer=(*producer.producer, 1))
    assert produce(client, topic, outside).error_code == ErrorCode.INVALID_TXN_STATE


class TestInitProducerId:
    @pytest.mark.parametrize("version", range(6))
    def test_every_version_gives_an_id(self, client: WireClient, transactional_id: str, version: int) -> None:
        answer = init(client, transactional_id, version=version)
        assert (answer.error_code, answer.producer_epoch) == (ErrorCode.NONE, 0)
        again = init(client, transactional_id, version=version)
        assert (again.producer_id, again.producer_epoch) == (answer.producer_id, 1)

    def test_bad_input(self, client: WireClient, transactional_id: str) -> None:
        assert init(client, "").error_code == ErrorCode.INVALID_REQUEST
        for timeout_ms in (0, -1, 900_001):
            answer = init(client, transactional_id, timeout_ms=timeout_ms)
            assert answer.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
        half = ProducerIdentity(5, -1)
        assert init(client, transactional_id, expected=half).error_code == ErrorCode.INVALID_REQUEST
        assert describe(client, transactional_id).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

    def test_going_on_after_an_error(self, client: WireClient, transactional_id: str) -> None:
        first = init(client, transactional_id)
        expected = ProducerIdentity(first.producer_id, first.producer_epoch)
        second = init(client, transactional_id, expected=expected)
        assert (second.producer_id, second.producer_epoch) == (first.producer_id, 1)
        assert init(client, transactional_id, expected=expected) == second, "the answer may have been lost"
        init(client, transactional_id)
        assert init(client, transactional_id, expected=expected).error_code == ErrorCode.PRODUCER_FENCED
        old = init(client, transactional_id, expected=expected, version=3)
        assert old.error_code == ErrorCode.INVALID_PRODUCER_EPOCH


class TestAddPartitions:
    def test_all_or_none(self, client: WireClient, new_topic: NewTopic, transactional_id: str) -> None:
        topic = new_topic()
        producer = Transactor(client, transactional_id).begin_session().producer
        codes = add_partitions(client, transactional_id, producer, {topic.name: [0, 1], "no-such-topic": [0]})
        assert codes == {
            TopicPartition(topic.name, 0): ErrorCode.OPERATION_NOT_ATTEMPTED,
            TopicPartition(topic.name, 1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            TopicPartition("no-such-topic", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert describe(client, transactional_id).transaction_state == "Empty"

    @pytest.mark.parametrize("version", range(6))
    def test_every_version(self, client: WireClient, new_topic: NewTopic, transactional_id: str, version: int) -> None:
        topic = new_topic(partitions=2)
        producer = Transactor(client, transactional_id).begin_session().producer
        codes = add_partitions(client, transactional_id, producer, {topic.name: [0, 1]}, version=version)
        assert list(codes.values()) == [ErrorCode.NONE, ErrorCode.NONE]
        state = describe(client, transactional_id)
        assert state.transaction_state == "Ongoing"
        assert [(data.topic, sorted(data.partitions)) for data in state.topics] == [(topic.name, [0, 1])]
        assert state.transaction_start_time_ms > 0

    def test_codes_by_version(self, client: WireClient, new_topic: NewTopic, transactional_id: str) -> None:
        topic = new_topic(partitions=2)
        place = {topic.name: [0]}
        producer = Transactor(client, transactional_id).begin_session().producer
        old = producer._replace(epoch=producer.epoch + 1)
        stranger = producer._replace(producer_id=producer.producer_id + 999)
        for version, code in [(1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED)]:
            assert set(add_partitions(client, transactional_id, old, place, version=version).values()) == {code}
        unmapped = add_partitions(client, transactional_id, stranger, place)
        assert set(unmapped.values()) == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}
        unknown = add_partitions(client, "nobody-has-this-id", producer, place)
        assert set(unknown.values()) == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}
        for version in (4, 5):
            verified = add_partitions(client, transactional_id, producer, place, version=version, verify_only=True)
            assert set(verified.values()) == {ErrorCode.TRANSACTION_ABORTABLE}
        add_partitions(client, transactional_id, producer, place)
        verified = add_partitions(client, transactional_id, producer, {topic.name: [0, 1]}, version=5, verify_only=True)
        assert verified == {
            TopicPartition(topic.name, 0): ErrorCode.NONE,
            TopicPartition(topic.name, 1): ErrorCode.TRANSACTION_ABORTABLE,
        }


class TestEnd:
    def test_nothing_to_end(self, client: WireClient, transactional_id: str) -> None:
        producer = Transactor(client, transactional_id).begin_session().producer
        assert end(client, transactional_id, producer, True, OLD_END).error_code == ErrorCode.INVALID_TXN_STATE
        assert end(client, transactional_id, producer, False, OLD_END).error_code == ErrorCode.INVALID_TXN_STATE
        assert end(client, transactional_id, producer, True, NEW_END).error_code == ErrorCode.INVALID_TXN_STATE
        assert end(client, transactional_id, producer, False, NEW_END).producer_epoch == producer.epoch + 1

    def test_unknown_producers(self, client: WireClient, transactional_id: str) -> None:
        producer = Transactor(client, transactional_id).begin_session().producer
        for version in (OLD_END, NEW_END):
            unknown = end(client, "nobody-has-this-id", producer, True, version)
            assert unknown.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
            assert end(client, "", producer, True, version).error_code == ErrorCode.INVALID_REQUEST


def test_offsets_of_a_group_join_a_transaction(client: WireClient, transactional_id: str) -> None:
    producer = Transactor(client, transactional_id).begin_session().producer
    request = AddOffsetsToTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        group_id="some-group",
    )
    for version in range(5):
        assert client.ask(request, version).error_code == ErrorCode.NONE
    (topic,) = describe(client, transactional_id).topics
    assert (topic.topic, len(topic.partitions)) == ("__consumer_offsets", 1)
    request.producer_epoch += 1
    assert client.ask(request, 1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert client.ask(request, 2).error_code == ErrorCode.PRODUCER_FENCED


def test_a_transaction_that_takes_too_long_is_aborted(
    client: WireClient, new_topic: NewTopic, transactional_id: str
) -> None:
    topic = new_topic()
    producer = Transactor(client, transactional_id).begin_session(timeout_ms=2000)
    producer.send_ok(topic, b"late")
    deadline = time.monotonic() + 60
    while describe(client, transactional_id).transaction_state != "CompleteAbort":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert last_stable_offset(client, topic) == 2
    assert committed_values(client, topic) == []
    assert producer.send(topic, b"later") == ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.end(commits=True) == ErrorCode.INVALID_TXN_STATE
    producer.abort()
    producer.send_ok(topic, b"next")
    producer.commit()
    assert committed_values(client, topic) == [b"next"]


def test_a_topic_that_is_deleted_does_not_hold_up_the_rest(
    client: WireClient, new_topic: NewTopic, transactional_id: str
) -> None:
    doomed, topic = new_topic(), new_topic()
    producer = Transactor(client, transactional_id).begin_session()
    producer.send_ok(doomed, b"gone")
    producer.send_ok(topic, b"kept")
    delete_topic(client, doomed.name)
    producer.commit()
    assert committed_values(client, topic) == [b"kept"]
    assert describe(client, transactional_id).transaction_state == "CompleteCommit"


class TestTools:
    def test_listing(self, client: WireClient, new_topic: NewTopic, transactional_id: str) -> None:
        topic = new_topic()
        producer = Transactor(client, transactional_id).begin_session()
        producer.send_ok(topic, b"value")

        def listed(version: int = 2, **filters: Any) -> list[str]:
            response = client.ask(ListTransactionsRequest(**filters), version)
            assert response.error_code == ErrorCode.NONE
            return [state.transactional_id for state in response.transaction_states]

        assert transactional_id in listed(0)
        assert transactional_id in listed(state_filters=["Ongoing"])
        assert transactional_id not in listed(state_filters=["Empty"])
        assert listed(producer_id_filters=[producer.producer.producer_id]) == [transactional_id]
        assert transactional_id not in listed(duration_filter=60_000)
        assert listed(transactional_id_pattern=f"{transactional_id[:-1]}.") == [transactional_id]
        assert listed(transactional_id_pattern=transactional_id[:-1]) == []
        response = client.ask(ListTransactionsRequest(state_filters=["Ongoing", "Undecided"]), 2)
        assert response.unknown_state_filters == ["Undecided"]
        assert listed(state_filters=["Undecided"]) == []
        broken = client.ask(ListTransactionsRequest(transactional_id_pattern="("), 2)
        assert broken.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION

    def test_describing_what_is_not_there(self, client: WireClient) -> None:
        assert describe(client, "nobody-has-this-id").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert describe(client, "").error_code == ErrorCode.INVALID_REQUEST

    def test_producers_of_a_partition(self, client: WireClient, new_topic: NewTopic, transactional_id: str) -> None:
        topic = new_topic()
        producer = Transactor(client, transactional_id).begin_session()
        producer.send_ok(topic, b"a", b"b")
        request = DescribeProducersRequest(topics=[TopicRequest(name=topic.name, partition_indexes=[0, 1])])

        (described,) = client.ask(request, 0).topics
        known, missing = described.partitions
        (active,) = known.active_producers
        assert (active.producer_id, active.producer_epoch) == producer.producer
        assert (active.last_sequence, active.current_txn_start_offset) == (1, 0)
        assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

        producer.commit()
        (active,) = client.ask(request, 0).topics[0].partitions[0].active_producers
        assert active.current_txn_start_offset == -1

    def test_markers_from_elsewhere(self, client: WireClient, new_topic: NewTopic, transactional_id: str) -> None:
        """As Kafka's tool for hanging transactions writes them."""
        topic = new_topic()
        producer = Transactor(client, transactional_id).begin_session()
        producer.send_ok(topic, b"hanging")

        def write(epoch: int, version: int = 1, transaction_version: int = 0) -> tuple[int, int]:
            """What is said of a partition that exists, and of one that does not."""
            marker = WritableTxnMarker(
                producer_id=producer.producer.producer_id,
                producer_epoch=epoch,
                transaction_result=False,
                coordinator_epoch=0,
                topics=[WritableTxnMarkerTopic(name=topic.name, partition_indexes=[0, 7])],
                transaction_version=transaction_version,
            )
            (result,) = client.ask(WriteTxnMarkersRequest(markers=[marker]), version).markers
            codes = {partition.partition_index: partition.error_code for partition in result.topics[0].partitions}
            return codes[0], codes[7]

        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        epoch = producer.producer.epoch
        assert write(epoch, 2, 2) == (ErrorCode.INVALID_PRODUCER_EPOCH, unknown), "a late marker (KIP-1228)"
        assert last_stable_offset(client, topic) == 0
        assert write(epoch + 1, 2, 2) == (ErrorCode.NONE, unknown)
        assert last_stable_offset(client, topic) == 2
        assert write(epoch) == (ErrorCode.INVALID_PRODUCER_EPOCH, unknown)
        assert committed_values(client, topic) == []


def test_features_tell_clients_which_protocol_to_use(client: WireClient) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    for version in (3, 4):
        response = client.ask(request, version)
        finalized = {key.name: key.max_version_level for key in response.finalized_features}
        assert finalized.items() >= {"transaction.version": 2, "group.version": 1}.items()
        assert response.finalized_features_epoch >= 0
        supported = {key.name: (key.min_version, key.max_version) for key in response.supported_features}
        if version > 3:
            assert supported.items() >= {"transaction.version": (0, 2), "group.version": (0, 1)}.items()
        else:
            assert supported.keys().isdisjoint(finalized.keys() & {"transaction.version", "group.version"})


def test_the_coordinators_topics_are_not_for_producers(client: WireClient, transactional_id: str) -> None:
    Transactor(client, transactional_id).begin_session()
    answer = produce(client, Topic("__transaction_state", bytes(16)), batch_of(b"junk"))
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_batches_that_follow_each_other_closely_wait_for_the_first_to_join() -> None:
    """Where every write is synced, a partition is in the transaction only after a while."""
    with Broker(config={"log.flush.interval.messages": "1"}) as broker, WireClient(broker.bootstrap_servers) as client:
        topic = create_topic(client, "topic")
        producer = Transactor(client, "id").begin_session()
        requests = []
        for number in range(5):
            request = produce_request(topic, {0: transactional_batch([b"%d" % number], producer.producer, number)})
            request.transactional_id = "id"
            requests.append(framed(encode_request(request, NEW_PRODUCE, number)))
        client.send_raw(b"".join(requests))
        for number in range(5):
            answer = client.receive(0, NEW_PRODUCE, number).responses[0].partition_responses[0]
            assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, number)
        producer.commit()
        assert committed_values(client, topic) == [b"%d" % number for number in range(5)]


class TestRestart:
    @pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
    @both_protocols
    def test_an_open_transaction_survives(self, own_broker: Broker, clean: bool, new_protocol: bool) -> None:
        with WireClient(own_broker.bootstrap_servers) as client:
            topic = create_topic(client, "topic", partitions=2)
            producer = Transactor(client, "id", new_protocol=new_protocol).begin_session()
            producer.send_ok(topic, b"before")
        (own_broker.stop if clean else own_broker.kill)()
        own_broker.start()
        with WireClient(own_broker.bootstrap_servers) as client:
            producer._client = client
            assert describe(client, "id").transaction_state == "Ongoing"
            assert last_stable_offset(client, topic) == 0
            producer.send_ok(topic, b"after")
            producer.send_ok(topic, b"elsewhere", partition=1)
            producer.commit()
            assert committed_values(client, topic) == [b"before", b"after"]
            assert committed_values(client, topic, partition=1) == [b"elsewhere"]

    def test_a_transaction_that_nobody_comes_back_for_is_aborted(self, own_broker: Broker) -> None:
        """Without a single request that names it."""
        with WireClient(own_broker.bootstrap_servers) as client:
            topic = create_topic(client, "topic")
            producer = Transactor(client, "id").begin_session(timeout_ms=2000)
            producer.send_ok(topic, b"abandoned")
        own_broker.kill()
        own_broker.start()
        with WireClient(own_broker.bootstrap_servers) as client:
            deadline = time.monotonic() + 60
            while last_stable_offset(client, topic) < 2:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            assert committed_values(client, topic) == []
