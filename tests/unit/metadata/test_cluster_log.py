"""The cluster's keys: entries and snapshots come back as they were, and damage never passes as metadata."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.metadata.changes import BrokerConfigChanged
from penstock.metadata.cluster_log import (
    Entry,
    Head,
    MetadataDamaged,
    apply_snapshot_part,
    decode_cluster,
    decode_entry,
    decode_head,
    decode_registration,
    encode_cluster,
    encode_entry,
    encode_head,
    encode_registration,
    encode_snapshot,
)
from penstock.metadata.image import ClusterImage
from tests.unit.metadata.images import created, image_with_brokers, registered

_ENTRY = Entry("me/1", (registered(1), created("orders", 1, 3, {"retention.ms": "5"})))


def test_values_come_back_as_they_were() -> None:
    assert decode_entry("k", encode_entry(_ENTRY)) == _ENTRY
    assert decode_head("k", encode_head(Head(7, 3, "s"))) == Head(7, 3, "s")
    assert decode_cluster("k", encode_cluster("id")) == "id"
    assert decode_registration("k", encode_registration(12)) == 12


def test_a_snapshot_of_many_parts_is_the_whole_image() -> None:
    image = image_with_brokers(1, 2)
    noise = random.Random(1)
    for number in range(30):
        value = "".join(noise.choices("abcdefgh", k=100_000))
        image.apply(BrokerConfigChanged(registered(number).broker.broker_id, {"listeners": value}))
    image.last_broker_epoch = 99
    parts = list(encode_snapshot(image))
    assert len(parts) > 2
    read = ClusterImage(image.cluster_id)
    for part in parts:
        apply_snapshot_part("k", part, read)
    assert read.live_changes() == image.live_changes()
    assert read.live_broker_changes() == image.live_broker_changes()
    assert read.last_broker_epoch == 99


def test_an_empty_image_is_a_snapshot_too() -> None:
    (part,) = encode_snapshot(ClusterImage("c"))
    apply_snapshot_part("k", part, ClusterImage("c"))


def test_a_snapshot_that_does_not_fit_is_damage() -> None:
    image = image_with_brokers(1)
    image.apply(created("orders", 1))
    (part,) = encode_snapshot(image)
    with pytest.raises(MetadataDamaged, match="does not fit the metadata before it"):
        apply_snapshot_part("k", part, image)


@given(st.binary(max_size=64) | st.integers(0, len(encode_entry(_ENTRY)) - 1).map(lambda n: encode_entry(_ENTRY)[:n]))
def test_damage_is_one_line_and_nothing_else(value: bytes) -> None:
    for decode in (decode_entry, decode_head, decode_cluster, decode_registration):
        with pytest.raises(MetadataDamaged) as damaged:
            decode("/penstock/key", value)
        assert "\n" not in str(damaged.value)
        assert "/penstock/key" in str(damaged.value)
