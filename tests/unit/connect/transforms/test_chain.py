from __future__ import annotations

import pickle
from importlib import import_module

import pyarrow as pa
import pytest

from penstock.connect.config.definition import ConfigDef, ConfigException
from penstock.connect.data.records import Column
from penstock.connect.errors.stage import Stage
from penstock.connect.transforms.chain import TransformChain, build_chain
from penstock.connect.transforms.kinds import KINDS, PREDICATE_KINDS
from penstock.connect.transforms.transform import Predicate, Transform
from tests.unit.connect.transforms.record_groups import KAFKA, column, group

CAST = {"transforms.cast.type": f"{KAFKA}Cast$Value", "transforms.cast.spec": "a:int32"}
TOMBSTONES = {"predicates": "gone", "predicates.gone.type": f"{KAFKA}predicates.RecordIsTombstone"}


def test_transforms_are_applied_in_their_order() -> None:
    config = {
        "transforms": "hoist, insert",
        "transforms.hoist.type": f"{KAFKA}HoistField$Value",
        "transforms.hoist.field": "inner",
        "transforms.insert.type": f"{KAFKA}InsertField$Value",
        "transforms.insert.topic.field": "topic",
    }
    (result,) = build_chain(config).apply(group(column(None, [1, 2]))).groups
    assert result.value.values.to_pylist() == [{"inner": 1, "topic": "orders"}, {"inner": 2, "topic": "orders"}]
    assert result.rows.to_pylist() == [100, 101]


def test_a_predicate_chooses_records_and_can_be_negated() -> None:
    records = group(Column(None, pa.array([{"a": 1}, None, {"a": 3}])))
    config = {
        "transforms": "drop",
        "transforms.drop.type": f"{KAFKA}Filter",
        "transforms.drop.predicate": "gone",
        **TOMBSTONES,
    }
    kept = build_chain(config).apply(records)
    assert [each.rows.to_pylist() for each in kept.groups] == [[100, 102]]
    negated = build_chain({**config, "transforms.drop.negate": "true"}).apply(records)
    assert [each.rows.to_pylist() for each in negated.groups] == [[101]]


def test_a_failure_names_the_transform_and_takes_no_further_part() -> None:
    config = {"transforms": "cast,mask", **CAST, "transforms.mask.type": f"{KAFKA}MaskField$Value"}
    chain = build_chain({**config, "transforms.mask.fields": "a"})
    result = chain.apply(group(column(None, [{"a": "1"}, {"a": "x"}])))
    assert [each.value.values.to_pylist() for each in result.groups] == [[{"a": 0}]]
    (failed,) = result.failures
    assert failed.stage is Stage.TRANSFORMATION
    assert failed.executing_class == f"{KAFKA}Cast$Value"
    assert list(failed.failure.rows) == [101]


def test_a_chain_without_transforms_changes_nothing() -> None:
    records = group(column(None, [1]))
    assert build_chain({}).apply(records).groups == (records,)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"transforms": "a"}, 'Missing required configuration "transforms.a.type" which has no default value.'),
        (
            {"transforms": "a", "transforms.a.type": "Nope"},
            "Invalid value Nope for configuration transforms.a.type: Class Nope could not be found.",
        ),
        ({"transforms": "a,a"}, "Invalid value [a, a] for configuration transforms: Duplicate alias provided."),
        (
            {"transforms": "cast", **CAST, "transforms.cast.negate": "true"},
            "Config 'transforms.cast.negate' was provided but there is no config 'transforms.cast.predicate' defining "
            "a predicate to be negated.",
        ),
        (
            {"transforms": "cast", **CAST, "transforms.cast.predicate": "unknown"},
            "Unknown configuration 'predicates.unknown.type'",
        ),
        (
            {"transforms": "f", "transforms.f.type": f"{KAFKA}Flatten$Value", "predicates": "p"},
            'Missing required configuration "predicates.p.type" which has no default value.',
        ),
        (
            {"transforms": "h", "transforms.h.type": "HoistField$Value"},
            'Missing required configuration "transforms.h.field" which has no default value.',
        ),
        (
            {"transforms": "p", "transforms.p.type": f"{KAFKA}predicates.RecordIsTombstone"},
            f"Invalid value {KAFKA}predicates.RecordIsTombstone for configuration transforms.p.type: Class class "
            f"{KAFKA}predicates.RecordIsTombstone does not implement the Transformation interface",
        ),
    ],
)
def test_mistakes_are_refused(config: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigException) as refused:
        build_chain(config)
    assert str(refused.value) == message


def test_a_chain_can_be_pickled() -> None:
    config = {
        "transforms": "route,sql",
        "transforms.route.type": f"{KAFKA}RegexRouter",
        "transforms.route.regex": "(.*)",
        "transforms.route.replacement": "$1-2",
        "transforms.sql.type": "penstock.transforms.Sql",
        "transforms.sql.query": "SELECT a + 1 AS a FROM record",
    }
    chain: TransformChain = pickle.loads(pickle.dumps(build_chain(config)))
    (result,) = chain.apply(group(column(None, [{"a": 1}]))).groups
    assert result.value.values.to_pylist() == [{"a": 2}]
    assert result.topic.to_pylist() == ["orders-2"]


@pytest.mark.parametrize("java_class", sorted(KINDS))
def test_every_kind_can_be_imported(java_class: str) -> None:
    module, _, name = KINDS[java_class].partition(":")
    found = getattr(import_module(module), name)
    assert issubclass(found, Predicate if java_class in PREDICATE_KINDS else Transform)
    assert isinstance(found.definition, ConfigDef)
    assert all(key.doc for key in found.definition.keys)
    found()
