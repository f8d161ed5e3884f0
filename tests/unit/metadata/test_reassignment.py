from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.metadata.changes import PartitionChanged, PartitionImage
from penstock.metadata.controller import Controller
from penstock.metadata.image import ClusterImage
from penstock.metadata.reassignment import decide_reassignment
from penstock.protocol.error_codes import BrokerError, ErrorCode
from tests.unit.metadata.clusters import INHERITED, ORDERS, ORDERS_ID, apply, cluster, ids, partition_of, shown, state


def reassign(image: ClusterImage, targets: list[int] | None, *, may_resize: bool = True) -> PartitionImage:
    change = decide_reassignment(image, ORDERS, 0, targets, INHERITED, may_resize=may_resize)
    return partition_of(apply(image, [] if change is None else [change]))


def refusal(image: ClusterImage, targets: list[int] | None, *, may_resize: bool = True) -> ErrorCode:
    with pytest.raises(BrokerError) as refused:
        reassign(image, targets, may_resize=may_resize)
    return refused.value.code


def in_sync(image: ClusterImage, isr: str) -> PartitionImage:
    """The leader has taken these replicas in; then the controller looks."""
    before = partition_of(image)
    joined = replace(before, isr=ids(isr), partition_epoch=before.partition_epoch + 1)
    image.apply(PartitionChanged(ORDERS_ID, joined))
    image.controller = image.controller_id
    return partition_of(apply(image, Controller().decide(image, image.controller, INHERITED)))


def test_replicas_are_removed_when_all_targets_are_in_sync() -> None:
    image = cluster(state(1, "123"), live="1234")
    begun = reassign(image, [4, 2])
    assert (begun.replicas, begun.adding, begun.removing) == (ids("4213"), ids("4"), ids("13"))
    assert shown(begun) == "1/0 isr=123 elr="
    done = in_sync(image, "1234")
    assert (done.replicas, done.adding, done.removing) == (ids("42"), (), ())
    assert shown(done) == "4/1 isr=42 elr="


def test_a_reassignment_waits_for_every_target() -> None:
    image = cluster(state(1, "13"), live="134")
    reassign(image, [4, 2])
    assert in_sync(image, "134").adding == ids("4")


def test_fewer_replicas_and_another_order_need_no_waiting() -> None:
    assert shown(reassign(cluster(state(1, "123")), [2, 3])) == "2/1 isr=23 elr="
    reordered = reassign(cluster(state(1, "123")), [3, 2, 1])
    assert (reordered.replicas, reordered.leader, reordered.adding) == (ids("321"), 1, ())


def test_the_replicas_of_now_change_nothing() -> None:
    assert reassign(cluster(state(1, "123")), [1, 2, 3]).partition_epoch == 0


def test_a_cancelled_reassignment_restores_the_replicas() -> None:
    image = cluster(state(1, "12", replicas="12"), live="1234")
    reassign(image, [3, 4])
    in_sync(image, "123")
    restored = reassign(image, None)
    assert (restored.replicas, restored.adding, restored.removing) == (ids("12"), (), ())
    assert shown(restored) == "1/1 isr=12 elr="


def test_a_reassignment_that_replaces_another_drops_what_that_one_added() -> None:
    image = cluster(state(1, "12", replicas="12"), live="1234")
    reassign(image, [3, 2])
    second = reassign(image, [4, 2])
    assert (second.replicas, second.adding, second.removing) == (ids("421"), ids("4"), ids("1"))
    assert reassign(image, None).replicas == ids("21")


def test_what_is_needed_is_not_dropped() -> None:
    image = cluster(state(3, "3", replicas="312", adding="3", removing="12"), live="34")
    assert refusal(image, None) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    replaced = reassign(image, [4])
    assert (replaced.replicas, replaced.removing) == (ids("4312"), ids("312"))
    unclean = cluster(state(3, "3", replicas="312", adding="3", removing="12"), live="13", unclean=True)
    assert shown(reassign(unclean, None)) == "1/1 isr=1 elr="


@pytest.mark.parametrize(
    ("targets", "code"),
    [
        ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 9], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 2], ErrorCode.INVALID_REPLICATION_FACTOR),
        (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_what_cannot_be_done_is_refused(targets: list[int] | None, code: ErrorCode) -> None:
    assert refusal(cluster(state(1, "123")), targets, may_resize=False) is code


@pytest.mark.parametrize(("name", "index"), [("payments", 0), ("orders", 1), ("orders", -1)])
def test_a_partition_that_does_not_exist_is_refused(name: str, index: int) -> None:
    with pytest.raises(BrokerError) as refused:
        decide_reassignment(cluster(state(1, "1")), type(ORDERS)(name), index, [1], INHERITED)
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
