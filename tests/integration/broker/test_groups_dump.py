"""Apache Kafka's own dump tool reads the topic of our groups: every kind of record, with nothing left over."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from penstock.core.ids import uuid_text
from penstock.testing import Broker
from penstock.testing.apache_kafka import run_kafka_tool
from penstock.testing.java import JavaMissingError
from tests.conftest import optional_part_missing
from tests.integration.broker.conversation import create_topic
from tests.integration.broker.group_conversation import ConsumerMember, Member, commit_ok
from tests.wire_client import WireClient

RECORD = re.compile(r"^\| offset: \d+ .* key: (\{.*\}) payload: (.*)$", re.MULTILINE)
FORGOTTEN = "<DELETE>"


def test_kafkas_dump_tool_decodes_what_we_wrote(tmp_path: Path) -> None:
    with Broker(config={"offsets.topic.num.partitions": "1", "group.initial.rebalance.delay.ms": "0"}) as broker:
        with WireClient(broker.bootstrap_servers) as client:
            topic = create_topic(client, "topic", partitions=2)
            commit_ok(client, "simple", topic, {1: 5})
            classic = Member(client, "classic")
            classic.settle()
            newer = ConsumerMember(client, "newer", ("topic",), "member", instance_id="instance")
            newer.beat()
            newer.leave()
        broker.stop()
        log = tmp_path / "00000000000000000000.log"
        log.write_bytes((broker.data_dir / "__consumer_offsets-0" / log.name).read_bytes())
    try:
        printed = run_kafka_tool("org.apache.kafka.tools.DumpLogSegments", ["--offsets-decoder", "--files", str(log)])
    except JavaMissingError as missing:
        optional_part_missing(str(missing))

    records: dict[str, list[Any]] = {}
    for key, payload in RECORD.findall(printed):
        decoded = None if payload == FORGOTTEN else json.loads(payload)["data"]
        records.setdefault(json.loads(key)["type"], []).append(decoded)
    assert set(records) == {"1", "2", "3", "5", "6", "7", "8"}
    (offset,) = records["1"]
    assert (offset["offset"], offset["metadata"], offset["topicId"]) == (5, "note", uuid_text(topic.topic_id))
    (group,) = records["2"]
    assert (group["generation"], group["leader"], len(group["members"])) == (1, classic.member_id, 1)
    assert [epoch["epoch"] for epoch in records["3"]] == [1, 2]
    assert records["5"][0]["subscribedTopicNames"] == ["topic"]
    assert records["6"][0]["assignmentEpoch"] == 1
    partitions = {"topicId": uuid_text(topic.topic_id), "partitions": [0, 1]}
    assert records["7"][0]["topicPartitions"] == [partitions]
    assert records["8"][0]["assignedPartitions"] == [{**partitions, "assignmentEpochs": [1, 1]}]
    assert [records[kind][-1] for kind in ("5", "7", "8")] == [None] * 3
