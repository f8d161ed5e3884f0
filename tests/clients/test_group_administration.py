"""Groups are listed, described, moved and deleted by clients."""

from __future__ import annotations

import pytest

from tests.clients.confluent_kafka_client import ConfluentKafkaClient
from tests.clients.conftest import ClientFor, Join, NewTopic
from tests.clients.interface import LATEST, KafkaClient
from tests.clients.records import numbered
from tests.clients.waiting import eventually

pytestmark = pytest.mark.clients


@pytest.fixture
def topic_of_group(client_for: ClientFor, new_topic: NewTopic, group: str) -> str:
    """A topic of ten records, of which the group, that has no members, has read four."""
    topic = new_topic()
    # aiokafka, which checks confluent-kafka elsewhere, cannot set a group's offsets.
    administrator = client_for(ConfluentKafkaClient.name)
    administrator.produce(topic, 0, numbered(10))
    administrator.alter_committed(group, topic, {0: 4})
    return topic


@pytest.mark.feature("committed offsets")
def test_committed_offsets(client: KafkaClient, topic_of_group: str, group: str) -> None:
    assert client.committed(group, topic_of_group) == {0: 4}


@pytest.mark.feature("consumer lag")
def test_consumer_lag(client: KafkaClient, topic_of_group: str, group: str) -> None:
    end = client.list_offset(topic_of_group, 0, LATEST)
    assert end is not None
    assert end - client.committed(group, topic_of_group)[0] == 6


@pytest.mark.feature("alter group offsets")
def test_alter_group_offsets(
    client: KafkaClient, reference: KafkaClient, topic_of_group: str, group: str, join: Join
) -> None:
    client.alter_committed(group, topic_of_group, {0: 7})
    assert reference.committed(group, topic_of_group) == {0: 7}
    member = join(group, topic_of_group)
    assert eventually(lambda: [each.offset for each in member.state().received] == [7, 8, 9])


@pytest.mark.feature("list groups")
def test_list_groups(client: KafkaClient, topic_of_group: str, group: str) -> None:
    assert group in client.list_groups()


@pytest.mark.feature("describe group")
def test_describe_group(client: KafkaClient, topic_of_group: str, group: str, join: Join) -> None:
    assert client.describe_group(group).state == "empty"
    member = join(group, topic_of_group)
    assert eventually(lambda: member.state().assigned == {0})
    described = client.describe_group(group)
    assert (described.state, described.assignments) == ("stable", [{0}])


@pytest.mark.feature("delete group")
def test_delete_group(client: KafkaClient, reference: KafkaClient, topic_of_group: str, group: str) -> None:
    client.delete_group(group)
    assert group not in reference.list_groups()
    assert reference.committed(group, topic_of_group) == {}
