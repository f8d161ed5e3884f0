"""ConsumerGroupDescribe: groups of the newer protocol, what their members have and shall have. Versions: 0 and 1."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from penstock.broker.authorized_operations import NOT_ASKED_FOR, group_operations
from penstock.broker.request_context import RequestContext
from penstock.coordinator import consumer_group_description as description
from penstock.core.acls import AclOperation
from penstock.protocol.definitions.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from penstock.protocol.error_codes import BrokerError, ErrorCode

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1


def handle(request: ConsumerGroupDescribeRequest, context: RequestContext) -> ConsumerGroupDescribeResponse:
    response = ConsumerGroupDescribeResponse()
    for group_id in request.group_ids:
        try:
            if not group_id:
                raise BrokerError(ErrorCode.INVALID_GROUP_ID)
            context.access.check_group(AclOperation.DESCRIBE, group_id)
            described = _described(context.node.groups.consumers.describe(group_id))
            _check_topics(described, context)
        except BrokerError as error:
            described = DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
        described.authorized_operations = (
            group_operations(context.access, group_id)
            if request.include_authorized_operations and not described.error_code
            else NOT_ASKED_FOR
        )
        response.groups.append(described)
    return response


def _check_topics(group: DescribedGroup, context: RequestContext) -> None:
    """As in Kafka, a group is shown to a client that may describe all of its topics."""
    if context.access.is_restricted:
        for member in group.members:
            assigned = (*member.assignment.topic_partitions, *member.target_assignment.topic_partitions)
            for name in (*member.subscribed_topic_names, *(topic.topic_name for topic in assigned)):
                context.access.check_topic(AclOperation.DESCRIBE, name)


def _described(group: description.DescribedGroup) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.phase.value,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor_name,
        members=[_member(member) for member in group.members],
    )


def _member(member: description.DescribedMember) -> Member:
    metadata = member.metadata
    return Member(
        member_id=metadata.member_id,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        member_epoch=member.member_epoch,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        subscribed_topic_names=list(metadata.subscribed_topic_names),
        subscribed_topic_regex=metadata.subscribed_topic_regex,
        assignment=_assignment(member.assignment),
        target_assignment=_assignment(member.target_assignment),
        member_type=CONSUMER_MEMBER if metadata.classic is None else CLASSIC_MEMBER,
    )


def _assignment(topics: Iterable[description.DescribedTopicPartitions]) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=each.topic_id, topic_name=each.topic_name, partitions=list(each.partitions))
            for each in topics
        ]
    )
