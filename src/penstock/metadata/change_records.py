"""Changes of the cluster image as JSON values, for a store to keep.

A journal keeps the durable ones, a store of several nodes all of them. ACLs and SCRAM credentials have the fields of
Kafka's own records.

Strict: `decode_change` raises ValueError for every record that it does not recognise. A record must never be skipped
because it was not understood.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

from penstock.core.acls import AclBinding, AclOperation, AclPermission, PatternType, ResourcePattern, ResourceType
from penstock.core.credentials import ScramCredential, ScramMechanism
from penstock.core.ids import (
    NO_LEADER,
    BrokerId,
    LeaderEpoch,
    PartitionIndex,
    ProducerId,
    TopicId,
    TopicName,
    uuid_bytes,
    uuid_text,
)
from penstock.core.quotas import QuotaEntity
from penstock.metadata.changes import (
    AclAdded,
    AclRemoved,
    BrokerConfigChanged,
    BrokerGone,
    BrokerImage,
    BrokerRegistered,
    BrokerShuttingDown,
    BrokerUnregistered,
    Change,
    ClientMetricsChanged,
    ClientQuotaChanged,
    ControllerElected,
    Endpoint,
    GroupConfigChanged,
    PartitionChanged,
    PartitionImage,
    PartitionsAdded,
    ProducerIdsAllocated,
    ScramCredentialRemoved,
    ScramCredentialSet,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
    TopicImage,
)

Record = dict[str, Any]


def encode_change(change: Change) -> Record:
    match change:
        case TopicCreated(topic):
            return {
                "type": "topic_created",
                "name": topic.name,
                "topic_id": uuid_text(topic.topic_id),
                "partitions": [_encode_partition(partition) for partition in topic.partitions],
                "configs": dict(topic.configs),
            }
        case TopicDeleted(topic_id):
            return {"type": "topic_deleted", "topic_id": uuid_text(topic_id)}
        case PartitionsAdded(topic_id, partitions):
            return {
                "type": "partitions_added",
                "topic_id": uuid_text(topic_id),
                "partitions": [_encode_partition(partition) for partition in partitions],
            }
        case PartitionChanged(topic_id, partition):
            record = {"type": "partition_changed", "topic_id": uuid_text(topic_id)}
            return record | _encode_partition(partition)
        case TopicConfigChanged(topic_id, configs):
            return {"type": "topic_config_changed", "topic_id": uuid_text(topic_id), "configs": dict(configs)}
        case BrokerConfigChanged(broker_id, configs):
            return {"type": "broker_config_changed", "broker_id": broker_id, "configs": dict(configs)}
        case GroupConfigChanged(group_id, configs):
            return {"type": "group_config_changed", "group_id": group_id, "configs": dict(configs)}
        case ClientMetricsChanged(name, configs):
            return {"type": "client_metrics_changed", "name": name, "configs": dict(configs)}
        case ClientQuotaChanged(entity, quotas):
            return {"type": "client_quota_changed", "entity": entity._asdict(), "quotas": dict(quotas)}
        case ProducerIdsAllocated(next_producer_id):
            return {"type": "producer_ids_allocated", "next_producer_id": next_producer_id}
        case AclAdded(acl_id, binding):
            return {
                "type": "access_control_entry",
                "id": uuid_text(acl_id),
                "resource_type": int(binding.pattern.resource_type),
                "resource_name": binding.pattern.name,
                "pattern_type": int(binding.pattern.pattern_type),
                "principal": binding.principal,
                "host": binding.host,
                "operation": int(binding.operation),
                "permission_type": int(binding.permission),
            }
        case AclRemoved(acl_id):
            return {"type": "remove_access_control_entry", "id": uuid_text(acl_id)}
        case ScramCredentialSet(user, credential):
            return {
                "type": "user_scram_credential",
                "name": user,
                "mechanism": int(credential.mechanism),
                "salt": b64encode(credential.salt).decode(),
                "stored_key": b64encode(credential.stored_key).decode(),
                "server_key": b64encode(credential.server_key).decode(),
                "iterations": credential.iterations,
            }
        case ScramCredentialRemoved(user, mechanism):
            return {"type": "remove_user_scram_credential", "name": user, "mechanism": int(mechanism)}
        case BrokerRegistered(broker):
            return {"type": "broker_registered", **_encode_broker(broker)}
        case BrokerGone(broker_id, epoch):
            return {"type": "broker_gone", "broker_id": broker_id, "epoch": epoch}
        case BrokerShuttingDown(broker_id, epoch):
            return {"type": "broker_shutting_down", "broker_id": broker_id, "epoch": epoch}
        case BrokerUnregistered(broker_id):
            return {"type": "broker_unregistered", "broker_id": broker_id}
        case ControllerElected(broker_id, epoch):
            return {"type": "controller_elected", "broker_id": broker_id, "epoch": epoch}


def decode_change(record: object) -> Change:
    """The change that `encode_change` made the record from. Raises ValueError for anything else."""
    if not isinstance(record, dict):
        raise ValueError("a change must be an object")
    kind = record.get("type")
    try:
        match kind:
            case "topic_created":
                topic = TopicImage(
                    name=TopicName(_text(record["name"])),
                    topic_id=_topic_id(record),
                    partitions=_decode_partitions(record["partitions"]),
                    configs=_configs(record["configs"]),
                )
                return TopicCreated(topic)
            case "topic_deleted":
                return TopicDeleted(_topic_id(record))
            case "partitions_added":
                return PartitionsAdded(_topic_id(record), _decode_partitions(record["partitions"]))
            case "partition_changed":
                return PartitionChanged(_topic_id(record), _decode_partition(record))
            case "topic_config_changed":
                return TopicConfigChanged(_topic_id(record), _configs(record["configs"]))
            case "broker_config_changed":
                broker_id = record["broker_id"]
                named = None if broker_id is None else BrokerId(_number(broker_id))
                return BrokerConfigChanged(named, _configs(record["configs"]))
            case "group_config_changed":
                return GroupConfigChanged(_text(record["group_id"]), _configs(record["configs"]))
            case "client_metrics_changed":
                return ClientMetricsChanged(_text(record["name"]), _configs(record["configs"]))
            case "client_quota_changed":
                return ClientQuotaChanged(_quota_entity(record["entity"]), _quotas(record["quotas"]))
            case "producer_ids_allocated":
                return ProducerIdsAllocated(ProducerId(_number(record["next_producer_id"])))
            case "access_control_entry":
                return AclAdded(uuid_bytes(_text(record["id"])), _binding(record))
            case "remove_access_control_entry":
                return AclRemoved(uuid_bytes(_text(record["id"])))
            case "user_scram_credential":
                return ScramCredentialSet(_text(record["name"]), _credential(record))
            case "remove_user_scram_credential":
                return ScramCredentialRemoved(_text(record["name"]), ScramMechanism(_number(record["mechanism"])))
            case "broker_registered":
                return BrokerRegistered(_decode_broker(record))
            case "broker_gone":
                return BrokerGone(_broker_id(record), _number(record["epoch"]))
            case "broker_shutting_down":
                return BrokerShuttingDown(_broker_id(record), _number(record["epoch"]))
            case "broker_unregistered":
                return BrokerUnregistered(_broker_id(record))
            case "controller_elected":
                return ControllerElected(_broker_id(record), _number(record["epoch"]))
    except KeyError as error:
        raise ValueError(f"a change of type {kind!r} lacks {error}") from None
    raise ValueError(f"a change of the unknown type {kind!r}")


def _encode_partition(partition: PartitionImage) -> Record:
    """What has its default is left out: a journal of one broker holds none of it."""
    record: Record = {
        "index": partition.index,
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
    }
    for name in ("elr", "adding", "removing"):
        if brokers := getattr(partition, name):
            record[name] = list(brokers)
    if partition.last_known_leader != NO_LEADER:
        record["last_known_leader"] = partition.last_known_leader
    if partition.partition_epoch:
        record["partition_epoch"] = partition.partition_epoch
    return record


def _decode_partition(record: Record) -> PartitionImage:
    return PartitionImage(
        index=PartitionIndex(_number(record["index"])),
        leader=BrokerId(_number(record["leader"])),
        leader_epoch=LeaderEpoch(_number(record["leader_epoch"])),
        replicas=_broker_ids(record["replicas"]),
        isr=_broker_ids(record["isr"]),
        elr=_broker_ids(record.get("elr", [])),
        last_known_leader=BrokerId(_number(record.get("last_known_leader", NO_LEADER))),
        adding=_broker_ids(record.get("adding", [])),
        removing=_broker_ids(record.get("removing", [])),
        partition_epoch=_number(record.get("partition_epoch", 0)),
    )


def _decode_partitions(records: object) -> tuple[PartitionImage, ...]:
    return tuple(_decode_partition(record) for record in _list_of(dict, records))


def _encode_broker(broker: BrokerImage) -> Record:
    return {
        "broker_id": broker.broker_id,
        "epoch": broker.epoch,
        "incarnation": broker.incarnation.hex(),
        "rack": broker.rack,
        "is_shutting_down": broker.is_shutting_down,
        "endpoints": [
            {
                "name": name,
                "host": endpoint.host,
                "port": endpoint.port,
                "security_protocol": endpoint.security_protocol,
            }
            for name, endpoint in broker.endpoints.items()
        ],
    }


def _decode_broker(record: Record) -> BrokerImage:
    rack = record["rack"]
    return BrokerImage(
        broker_id=_broker_id(record),
        endpoints={
            _text(endpoint["name"]): Endpoint(
                _text(endpoint["host"]), _number(endpoint["port"]), _text(endpoint["security_protocol"])
            )
            for endpoint in _list_of(dict, record["endpoints"])
        },
        rack=None if rack is None else _text(rack),
        epoch=_number(record["epoch"]),
        incarnation=bytes.fromhex(_text(record["incarnation"])),
        is_shutting_down=record["is_shutting_down"] is True,
    )


def _broker_id(record: Record) -> BrokerId:
    return BrokerId(_number(record["broker_id"]))


def _binding(record: Record) -> AclBinding:
    return AclBinding(
        ResourcePattern(
            ResourceType(_number(record["resource_type"])),
            _text(record["resource_name"]),
            PatternType(_number(record["pattern_type"])),
        ),
        _text(record["principal"]),
        _text(record["host"]),
        AclOperation(_number(record["operation"])),
        AclPermission(_number(record["permission_type"])),
    )


def _credential(record: Record) -> ScramCredential:
    return ScramCredential(
        ScramMechanism(_number(record["mechanism"])),
        _number(record["iterations"]),
        salt=b64decode(_text(record["salt"]), validate=True),
        stored_key=b64decode(_text(record["stored_key"]), validate=True),
        server_key=b64decode(_text(record["server_key"]), validate=True),
    )


def _broker_ids(values: object) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(_number(value)) for value in _list_of(int, values))


def _topic_id(record: Record) -> TopicId:
    return TopicId(uuid_bytes(_text(record["topic_id"])))


def _configs(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError("settings must be an object")
    return {_text(name): _text(text) for name, text in value.items()}


def _quota_entity(value: object) -> QuotaEntity:
    if not isinstance(value, dict) or set(value) != set(QuotaEntity._fields):
        raise ValueError(f"expected a user, a client id and an IP address, not {value!r}")
    return QuotaEntity(**{kind: None if name is None else _text(name) for kind, name in value.items()})


def _quotas(value: object) -> dict[str, float]:
    if not isinstance(value, dict):
        raise ValueError("quotas must be an object")
    for limit in value.values():
        if not isinstance(limit, int | float) or isinstance(limit, bool):
            raise ValueError(f"expected a number, not {limit!r}")
    return {_text(key): float(limit) for key, limit in value.items()}


def _list_of(kind: type, value: object) -> list[Any]:
    if not isinstance(value, list) or not all(isinstance(item, kind) for item in value):
        raise ValueError(f"expected a list of {kind.__name__}, not {value!r}")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected a string, not {value!r}")
    return value


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"expected an integer, not {value!r}")
    return value
