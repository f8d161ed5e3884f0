from __future__ import annotations

import json

import pytest

from penstock.core.ids import TopicPartition
from penstock.pipeline.topics.errors import TopicSourceError
from penstock.pipeline.topics.offsets import StreamOffset, decode, decode_json, encode, lag


def partition(topic: str, index: int) -> TopicPartition:
    return TopicPartition(topic, index)


def test_equal_positions_have_equal_text() -> None:
    one = StreamOffset({partition("b", 10): 1, partition("b", 2): 2, partition("a", 0): 3})
    other = StreamOffset(dict(reversed(list(one.ends.items()))))
    assert json.dumps(encode(one)) == json.dumps(encode(other)) == '{"a": {"0": 3}, "b": {"2": 2, "10": 1}}'


def test_what_is_stored_comes_back() -> None:
    offset = StreamOffset({partition("a", 0): 3, partition("a", 1): 7}, {partition("a", 1): 5})
    assert decode(json.loads(json.dumps(encode(offset)))) == offset


def test_a_checkpoint_of_sparks_own_source_is_understood() -> None:
    assert decode_json('{"a":{"0":23,"1":4}}').ends == {partition("a", 0): 23, partition("a", 1): 4}


@pytest.mark.parametrize("text", ['{"a": 5}', '{"a": {"zero": 5}}', "5", '{"logOffset": 3}'])
def test_an_offset_of_another_source_is_refused(text: str) -> None:
    with pytest.raises(TopicSourceError):
        decode_json(text)


def test_lag_counts_what_was_not_read() -> None:
    ends = {partition("a", 0): 5, partition("a", 1): 9}
    latest = {partition("a", 0): 8, partition("a", 1): 7, partition("b", 0): 4}
    assert lag(ends, latest) == {partition("a", 0): 3, partition("a", 1): 0, partition("b", 0): 4}
