"""Incremental fetch sessions (KIP-227) and topic ids, as the Java client uses them."""

from __future__ import annotations

import pytest

from penstock.protocol.definitions.fetch import FetchResponse
from penstock.protocol.error_codes import ErrorCode
from tests.integration.broker.conftest import NewTopic
from tests.integration.broker.conversation import (
    FETCH_VERSION,
    Topic,
    create_topic,
    delete_topic,
    fetch_request,
    partitions_of,
    produce_ok,
    values_in,
)
from tests.wire_client import WireClient

NAMES = 12
IDS = FETCH_VERSION


class Session:
    """A client's side of one session."""

    def __init__(self, client: WireClient, topic: Topic, partitions: int, version: int) -> None:
        self._client = client
        self._topic = topic
        self._version = version
        opened = client.ask(fetch_request(topic, dict.fromkeys(range(partitions), 0), session_epoch=0), version)
        assert sorted(partitions_of(opened)) == list(range(partitions)), "the first answer names every partition"
        self.session_id: int = opened.session_id
        self.epoch = 1

    def fetch(self, offsets: dict[int, int] | None = None, forgotten: tuple[int, ...] = ()) -> FetchResponse:
        request = fetch_request(
            self._topic, offsets or {}, session_id=self.session_id, session_epoch=self.epoch, forgotten=forgotten
        )
        response: FetchResponse = self._client.ask(request, self._version)
        if response.error_code == ErrorCode.NONE:
            self.epoch += 1
        return response


@pytest.mark.parametrize("version", [7, NAMES, IDS, 18])
def test_only_what_changed_is_told(
    client: WireClient, other_client: WireClient, new_topic: NewTopic, version: int
) -> None:
    topic = new_topic(partitions=3)
    session = Session(client, topic, 3, version)
    assert session.session_id > 0
    assert partitions_of(session.fetch()) == {}

    produce_ok(other_client, topic, b"news", partition=1)
    answer = partitions_of(session.fetch())
    assert list(answer) == [1]
    assert values_in(answer[1]) == [b"news"]

    assert list(partitions_of(session.fetch())) == [1], "until the client moves on, the records are news"
    assert partitions_of(session.fetch({1: 1})) == {}


@pytest.mark.parametrize("version", [NAMES, IDS])
def test_a_forgotten_partition_is_not_told(
    client: WireClient, other_client: WireClient, new_topic: NewTopic, version: int
) -> None:
    topic = new_topic(partitions=2)
    session = Session(client, topic, 2, version)
    assert partitions_of(session.fetch(forgotten=(0,))) == {}

    for partition in (0, 1):
        produce_ok(other_client, topic, b"x", partition=partition)

    assert list(partitions_of(session.fetch())) == [1]
    answer = partitions_of(session.fetch({0: 0}))
    assert values_in(answer[0]) == [b"x"], "a forgotten partition can be taken in again"


def test_a_partition_can_join_a_session(client: WireClient, other_client: WireClient, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=3)
    session = Session(client, topic, 2, IDS)
    produce_ok(other_client, topic, b"third", partition=2)

    answer = partitions_of(session.fetch({2: 0}))

    assert list(answer) == [2]
    assert values_in(answer[2]) == [b"third"]


def test_a_session_waits_for_all_of_its_partitions(
    client: WireClient, other_client: WireClient, new_topic: NewTopic
) -> None:
    topic = new_topic(partitions=3)
    session = Session(client, topic, 3, IDS)
    request = fetch_request(topic, {}, session_id=session.session_id, session_epoch=1, max_wait_ms=20_000)
    correlation_id = client.send(request, IDS)

    produce_ok(other_client, topic, b"third", partition=2)

    assert values_in(partitions_of(client.receive(1, IDS, correlation_id))[2]) == [b"third"]


def test_no_partition_starves_under_max_bytes(
    client: WireClient, other_client: WireClient, new_topic: NewTopic
) -> None:
    topic = new_topic(partitions=3)
    for partition in range(3):
        produce_ok(other_client, topic, b"x" * 2000, partition=partition)
    opened = client.ask(fetch_request(topic, {0: 0, 1: 0, 2: 0}, session_epoch=0, max_bytes=1), IDS)
    served = [partition for partition, data in partitions_of(opened).items() if data.records]

    for epoch in (1, 2):
        request = fetch_request(topic, {}, session_id=opened.session_id, session_epoch=epoch, max_bytes=1)
        answer = partitions_of(client.ask(request, IDS))
        served += [partition for partition, data in answer.items() if data.records]

    assert sorted(served) == [0, 1, 2]


def test_a_wrong_epoch_and_an_unknown_session_make_the_client_start_anew(
    client: WireClient, new_topic: NewTopic
) -> None:
    topic = new_topic()
    session = Session(client, topic, 1, IDS)

    session.epoch = 7
    assert session.fetch().error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    session.epoch = 1
    assert session.fetch().error_code == ErrorCode.NONE
    session.session_id = session.session_id % (2**31 - 1) + 1
    assert session.fetch().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_the_final_epoch_closes_a_session(client: WireClient, new_topic: NewTopic) -> None:
    topic = new_topic()
    session = Session(client, topic, 1, IDS)

    closing = client.ask(fetch_request(topic, {0: 0}, session_id=session.session_id, session_epoch=-1), IDS)

    assert (closing.error_code, closing.session_id) == (ErrorCode.NONE, 0)
    assert session.fetch().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_by_names_is_not_continued_by_ids(client: WireClient, new_topic: NewTopic) -> None:
    topic = new_topic()
    session = Session(client, topic, 1, NAMES)

    request = fetch_request(topic, {}, session_id=session.session_id, session_epoch=1)

    assert client.ask(request, IDS).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_an_id_is_not_reused_with_the_name(client: WireClient, other_client: WireClient, new_topic: NewTopic) -> None:
    """Whoever knows a topic by its id never reads another one that took its name."""
    topic = new_topic()
    produce_ok(client, topic, b"old")
    session = Session(client, topic, 1, IDS)
    delete_topic(other_client, topic.name)
    again = create_topic(other_client, topic.name)
    produce_ok(other_client, again, b"new")

    answer = partitions_of(session.fetch())

    assert again.topic_id != topic.topic_id
    assert answer[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert values_in(partitions_of(client.ask(fetch_request(again, {0: 0}), IDS))[0]) == [b"new"]
