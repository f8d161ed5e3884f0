"""The same records through Kafka's class and through ours."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from penstock.connect.config.definition import ConfigException
from penstock.connect.data.records import RecordGroup
from penstock.connect.transforms.kinds import KINDS
from penstock.connect.transforms.transform import Predicate, Transform
from tests.connect_differential.transforms.encoding import encode_group
from tests.connect_differential.transforms.kafka_transforms import KafkaTransforms


def _plugin(java_class: str) -> Any:
    module, _, name = KINDS[java_class].partition(":")
    return getattr(import_module(module), name)()


def _configured(java_class: str, config: Mapping[str, str]) -> Transform | Predicate | ConfigException:
    plugin: Transform | Predicate = _plugin(java_class)
    try:
        plugin.configure(config)
    except ConfigException as refused:
        return refused
    return plugin


def _ours(transform: Transform, group: RecordGroup) -> dict[int, Any]:
    result = transform.apply(group)
    outcomes: dict[int, Any] = dict.fromkeys(group.rows.to_pylist())
    seen: list[int] = []
    for transformed in result.groups:
        for row, record in encode_group(transformed):
            outcomes[row] = record
            seen.append(row)
    for failure in result.failures:
        for row in failure.rows:
            outcomes[row] = {"error": failure.java_class, "message": failure.message}
            seen.append(row)
    assert len(set(seen)) == len(seen), "a row is in two groups or failures"
    return outcomes


def _with_offset(group: RecordGroup) -> list[Any]:
    records = []
    for index, (_row, record) in enumerate(encode_group(group)):
        records.append({**record, "offset": None if group.offset is None else group.offset[index].as_py()})
    return records


def compare(kafka: KafkaTransforms, java_class: str, config: dict[str, str], groups: list[RecordGroup]) -> int:
    plugin = _configured(java_class, config)
    answer = kafka.run(java_class, config, [record for group in groups for record in _with_offset(group)])
    if isinstance(plugin, ConfigException):
        assert "refused" in answer, f"{java_class} {config}: only we refuse it: {plugin}"
        assert str(plugin) == answer["refused"]["message"]
        return 0
    assert "results" in answer, f"{java_class} {config}: only Kafka refuses it: {answer['refused']}"
    expected = iter(answer["results"])
    for group in groups:
        if isinstance(plugin, Predicate):
            ours: list[Any] = plugin.test(group).to_pylist()
        else:
            ours = list(_ours(plugin, group).values())
        for index, outcome in enumerate(ours):
            mine, kafkas = _without_record(outcome), _without_record(next(expected))
            record = _with_offset(group)[index]
            assert mine == kafkas, f"{java_class} {config}\nrecord: {record}\nKafka: {kafkas}\nours:  {mine}"
    return sum(len(group) for group in groups)


def _without_record(outcome: Any) -> Any:
    """Kafka prints the whole record where its timestamp is missing; we print where it is from."""
    if isinstance(outcome, dict) and outcome.get("message", "").startswith("Timestamp missing on record: "):
        return {**outcome, "message": "Timestamp missing on record"}
    return outcome
