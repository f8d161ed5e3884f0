"""`penstock produce` and `penstock consume` against a real broker."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.conftest import RunningBroker
from tests.integration.cli.conftest import TIMEOUT_S, Command, command_line, environment, only_line

NewTopic = Callable[..., str]


def send(penstock: Command, topic: str, data: bytes, *options: str) -> None:
    finished = penstock("produce", topic, *options, stdin=data)
    assert (finished.returncode, finished.stderr) == (0, b"")


def read(penstock: Command, topic: str, *options: str) -> bytes:
    finished = penstock("consume", topic, "-e", *options)
    assert (finished.returncode, finished.stderr) == (0, b"")
    return finished.stdout


def read_json(penstock: Command, topic: str, *options: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in read(penstock, topic, "--json", *options).splitlines()]


def test_lines_come_back_in_order(penstock: Command, new_topic: NewTopic) -> None:
    topic = new_topic()
    lines = b"".join(b"line %d\n" % number for number in range(20_000))
    send(penstock, topic, lines)
    assert read(penstock, topic, "--from-beginning") == lines


def test_all_partitions_are_read_and_one_can_be_chosen(penstock: Command, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=3)
    for partition in range(3):
        send(penstock, topic, b"%d\n" % partition, "-p", str(partition))
    assert sorted(read(penstock, topic, "--from-beginning").split()) == [b"0", b"1", b"2"]
    assert read(penstock, topic, "--from-beginning", "-p", "1") == b"1\n"


def test_keys_headers_nulls_and_empty_values(penstock: Command, new_topic: NewTopic) -> None:
    topic = new_topic()
    send(penstock, topic, b"a:1\n\n:2\nplain\nb:\n", "-K", ":", "-H", "x=y", "-H", "flag")
    send(penstock, topic, b"a:\n:\n\n", "-K", ":", "-Z", "-k", "unused")
    records = read_json(penstock, topic, "--from-beginning")
    assert [(record["key"], record["value"]) for record in records] == [
        ("a", "1"), (None, ""), ("", "2"), (None, "plain"), ("b", ""), ("a", None), (None, None), ("unused", None),
    ]  # fmt: skip
    assert records[0]["headers"] == [{"name": "x", "value": "y"}, {"name": "flag", "value": None}]
    assert [record["offset"] for record in records] == list(range(8))
    assert records[5]["headers"] == []


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_compression(penstock: Command, new_topic: NewTopic, compression: str) -> None:
    topic = new_topic()
    data = b"the same again and again\n" * 1000
    send(penstock, topic, data, "-z", compression)
    assert read(penstock, topic, "--from-beginning") == data


@pytest.mark.parametrize("acks", ["0", "1", "all", "-1"])
def test_every_acks(penstock: Command, new_topic: NewTopic, acks: str) -> None:
    topic = new_topic()
    send(penstock, topic, b"x\n", "--acks", acks)
    # Whoever asks for no acknowledgement may look too early.
    deadline = time.monotonic() + TIMEOUT_S
    while (found := read(penstock, topic, "--from-beginning")) == b"" and time.monotonic() < deadline:
        time.sleep(0.1)
    assert found == b"x\n"


def test_binary_records_with_delimiters_of_their_own(penstock: Command, new_topic: NewTopic) -> None:
    topic = new_topic()
    send(penstock, topic, b"\xff\n\x00|key|\x01\x02", "-D", "|")
    assert read(penstock, topic, "--from-beginning", "-D", r"\x1e") == b"\xff\n\x00\x1ekey\x1e\x01\x02\x1e"


def test_formats(penstock: Command, new_topic: NewTopic) -> None:
    topic = new_topic()
    send(penstock, topic, b"k:v\n", "-K", ":", "-H", "a=b")
    assert read(penstock, topic, "-o", "0", "-f", r"%t %p %o %k %K %s %S %h\n").decode() == f"{topic} 0 0 k 1 v 1 a=b\n"
    assert read(penstock, topic, "-o", "0", "-K", "=") == b"k=v\n"


def test_positions(penstock: Command, new_topic: NewTopic) -> None:
    topic = new_topic()
    send(penstock, topic, b"0\n1\n2\n3\n")
    assert read(penstock, topic, "-o", "2") == b"2\n3\n"
    assert read(penstock, topic, "-o", "-1") == b"3\n"
    assert read(penstock, topic, "-o", "-100") == b"0\n1\n2\n3\n"
    assert read(penstock, topic, "-o", "4") == b""
    assert read(penstock, topic) == b""
    assert read(penstock, topic, "--from-beginning", "-c", "2") == b"0\n1\n"
    beyond = penstock("consume", topic, "-e", "-o", "5")
    assert beyond.returncode == 4
    assert "offsets 0 to 4" in only_line(beyond.stderr)


def test_positions_in_time(penstock: Command, new_topic: NewTopic) -> None:
    topic = new_topic()
    send(penstock, topic, b"early\n")
    time.sleep(0.05)
    between = round(time.time() * 1000)
    time.sleep(0.05)
    send(penstock, topic, b"late\n")
    assert read(penstock, topic, "-o", f"s@{between}") == b"late\n"
    assert read(penstock, topic, "-o", "beginning", "-o", f"e@{between}") == b"early\n"
    assert read(penstock, topic, "-o", f"s@{between + 3_600_000}") == b""


def test_a_topic_that_is_produced_to_is_created(penstock: Command) -> None:
    topic = f"cli-{uuid4().hex}"
    finished = penstock("produce", topic, "--json", stdin=b"first\nsecond\n")
    assert json.loads(finished.stdout) == {"topic": topic, "records": 2, "bytes": 11}
    assert read(penstock, topic, "--from-beginning") == b"first\nsecond\n"


def test_a_topic_that_is_consumed_is_not_created(penstock: Command) -> None:
    topic = f"cli-{uuid4().hex}"
    finished = penstock("consume", topic, "-e")
    assert finished.returncode == 4
    assert f"topic '{topic}' does not exist" in only_line(finished.stderr)
    assert topic not in penstock("topic", "list").stdout.decode()


def test_a_partition_that_is_not_there(penstock: Command, new_topic: NewTopic) -> None:
    topic = new_topic()
    for finished in (penstock("consume", topic, "-p", "1", "-e"), penstock("produce", topic, "-p", "1", stdin=b"x\n")):
        assert finished.returncode == 4
        assert "partition 1" in only_line(finished.stderr)


def test_a_record_that_is_too_large_fails_with_its_number(penstock: Command, new_topic: NewTopic) -> None:
    finished = penstock("produce", new_topic(), stdin=b"small\n" + b"x" * 999_990 + b"\n")
    assert finished.returncode == 1
    assert "record 2 of the input" in only_line(finished.stderr)


def test_what_the_broker_refuses_is_counted(penstock: Command, new_topic: NewTopic) -> None:
    topic = new_topic()
    assert penstock("topic", "alter", topic, "--config", "max.message.bytes=1000").returncode == 0
    finished = penstock("produce", topic, stdin=b"x" * 5000 + b"\n")
    assert finished.returncode == 1
    assert "1 of 1 records were not acknowledged" in only_line(finished.stderr)


def test_a_reader_that_goes_away_is_no_reason_to_complain(
    penstock: Command, new_topic: NewTopic, broker_under_test: RunningBroker
) -> None:
    topic = new_topic()
    send(penstock, topic, b"a line\n" * 50_000)
    consumer = subprocess.Popen(
        command_line("consume", topic, "--from-beginning", "-b", broker_under_test.bootstrap_servers),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert consumer.stdout is not None
    assert consumer.stderr is not None
    with consumer.stdout, consumer.stderr:
        assert consumer.stdout.readline() == b"a line\n"
        consumer.stdout.close()
        assert consumer.wait(TIMEOUT_S) == 141
        assert consumer.stderr.read() == b""


def test_following_a_topic_until_ctrl_c(
    penstock: Command, new_topic: NewTopic, broker_under_test: RunningBroker
) -> None:
    topic = new_topic()
    send(penstock, topic, b"old\n")
    consumer = subprocess.Popen(
        command_line("consume", topic, "-o", "-1", "-b", broker_under_test.bootstrap_servers),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert consumer.stdout is not None
    assert consumer.stderr is not None
    with consumer.stdout, consumer.stderr:
        assert consumer.stdout.readline() == b"old\n"
        send(penstock, topic, b"new\n")
        assert consumer.stdout.readline() == b"new\n"
        consumer.send_signal(signal.SIGINT)
        assert consumer.wait(TIMEOUT_S) == 130
        assert (consumer.stdout.read(), consumer.stderr.read()) == (b"", b"")


def test_the_input_may_come_slowly(penstock: Command, new_topic: NewTopic, broker_under_test: RunningBroker) -> None:
    """A line is sent when it is complete, not when the input ends."""
    topic = new_topic()
    producer = subprocess.Popen(
        command_line("produce", topic, "-b", broker_under_test.bootstrap_servers),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert producer.stdin is not None
    assert producer.stderr is not None
    with producer.stderr:
        producer.stdin.write(b"now\n")
        producer.stdin.flush()
        assert penstock("consume", topic, "--from-beginning", "-c", "1").stdout == b"now\n"
        assert producer.poll() is None
        producer.stdin.close()
        assert producer.wait(TIMEOUT_S) == 0
        assert producer.stderr.read() == b""


def test_a_broker_that_dies_ends_the_commands(tmp_path: Path, start_broker: Callable[..., Any]) -> None:
    with start_broker({}) as broker:
        address = broker.bootstrap_servers
        consumer = subprocess.Popen(
            command_line("produce", "t", "-b", address),
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
        )
        assert consumer.stdin is not None
        assert consumer.stderr is not None
        with consumer.stderr:
            consumer.stdin.write(b"one\n")
            consumer.stdin.flush()
            found = b""
            while found != b"one\n":
                found = subprocess.run(
                    command_line("consume", "t", "--from-beginning", "-c", "1", "-b", address),
                    stdout=subprocess.PIPE,
                    env=environment(),
                    timeout=TIMEOUT_S,
                ).stdout
            broker.kill()
            consumer.stdin.write(b"two\n")
            consumer.stdin.close()
            assert consumer.wait(TIMEOUT_S) == 3
            assert "1 records are not acknowledged" in only_line(consumer.stderr.read())
        broker.start()
