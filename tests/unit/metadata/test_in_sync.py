from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.core.ids import BrokerId, LeaderEpoch
from penstock.metadata.changes import BrokerGone
from penstock.metadata.image import ClusterImage
from penstock.metadata.in_sync import decide_in_sync
from penstock.protocol.error_codes import BrokerError, ErrorCode
from tests.unit.metadata.clusters import (
    INHERITED,
    ONE,
    ORDERS_ID,
    apply,
    cluster,
    partition_of,
    shown,
    state,
)
from tests.unit.metadata.images import registered, topic_id


def proposed(image: ClusterImage, *, joining: dict[int, int] | None = None, leaving: str = "", **known: int) -> str:
    """What the leader, broker 1, gets for its proposal; `known` is what it believes."""
    changes = decide_in_sync(
        image,
        topic_id(known.get("topic", 1)),
        partition_of(image).index,
        leader=BrokerId(known.get("leader", ONE)),
        leader_epoch=LeaderEpoch(known.get("leader_epoch", 0)),
        partition_epoch=known.get("partition_epoch", 0),
        joining={BrokerId(replica): epoch for replica, epoch in (joining or {}).items()},
        leaving={BrokerId(int(replica)) for replica in leaving},
        inherited=INHERITED,
    )
    return shown(partition_of(apply(image, changes)))


def refusal(image: ClusterImage, **proposal: object) -> ErrorCode:
    with pytest.raises(BrokerError) as refused:
        proposed(image, **proposal)  # type: ignore[arg-type]
    return refused.value.code


def test_a_follower_that_caught_up_joins_in_the_order_of_the_replicas() -> None:
    assert proposed(cluster(state(1, "13")), joining={2: 2}) == "1/0 isr=123 elr="


def test_a_follower_that_lags_leaves_and_stays_eligible_below_the_minimum() -> None:
    assert proposed(cluster(state(1, "123"), min_isr=2), leaving="3") == "1/0 isr=12 elr="
    assert proposed(cluster(state(1, "123"), min_isr=2), leaving="23") == "1/0 isr=1 elr=23"


def test_a_leader_does_not_leave_by_itself() -> None:
    assert proposed(cluster(state(1, "12")), leaving="1") == "1/0 isr=12 elr="


@pytest.mark.parametrize(
    ("known", "code"),
    [
        ({"topic": 2}, ErrorCode.UNKNOWN_TOPIC_ID),
        ({"leader": 2}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"leader_epoch": 1}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"partition_epoch": 1}, ErrorCode.INVALID_UPDATE_VERSION),
    ],
)
def test_a_leader_that_is_behind_the_metadata_is_refused(known: dict[str, int], code: ErrorCode) -> None:
    assert refusal(cluster(state(1, "12")), leaving="2", **known) is code


def test_only_a_live_replica_joins_and_only_in_the_epoch_of_its_fetches() -> None:
    joining = {2: 2}
    assert refusal(cluster(state(1, "1"), live="13"), joining=joining) is ErrorCode.INELIGIBLE_REPLICA
    assert refusal(cluster(state(1, "1"), shutting_down="2"), joining=joining) is ErrorCode.INELIGIBLE_REPLICA
    assert refusal(cluster(state(1, "1"), live="1234"), joining={4: 4}) is ErrorCode.INELIGIBLE_REPLICA
    returned = cluster(state(1, "1"))
    apply(returned, [BrokerGone(BrokerId(2), 2)])
    broker = registered(2).broker
    apply(returned, [replace(registered(2), broker=replace(broker, epoch=5, incarnation=b"later"))])
    assert refusal(returned, joining=joining) is ErrorCode.INELIGIBLE_REPLICA
    assert proposed(returned, joining={2: 5}) == "1/0 isr=12 elr="


def test_a_replica_that_is_in_sync_already_changes_nothing() -> None:
    image = cluster(state(1, "12"))
    assert proposed(image, joining={2: 2}) == "1/0 isr=12 elr="
    assert partition_of(image).partition_epoch == 0
    assert ORDERS_ID in image.topics_by_id
