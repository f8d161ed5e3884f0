"""The transforms of a connector, one after the other, each for the records that its predicate lets through.

Owns the properties `transforms`, `transforms.NAME.*`, `predicates` and `predicates.NAME.*`, and the order of the steps.
It must not know what transforms do.

Invariants:
- A record that failed in one step takes no further part.
- A chain is picklable: it is built in the worker, and used in tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import pyarrow.compute as pc

from penstock.connect.config.definition import ConfigDef, ConfigException, ConfigKey, ConfigType, Importance
from penstock.connect.config.parsing import invalid, parse_value
from penstock.connect.connector import RetriableError
from penstock.connect.data.records import RecordGroup, StepResult
from penstock.connect.errors.retries import RetryPolicy
from penstock.connect.errors.retrying import Retrying, failure_of
from penstock.connect.errors.stage import Stage, StagedFailure
from penstock.connect.transforms.kinds import KINDS
from penstock.connect.transforms.parts import split
from penstock.connect.transforms.properties import list_text
from penstock.connect.transforms.transform import Predicate, Transform

NO_RETRIES = Retrying(RetryPolicy())
Find = Callable[[str, Mapping[str, str]], tuple[str, Any]]
"""Resolves a class name or an alias, in a table of kinds, to the Java name and the Python class. Raises KeyError."""

IMPLICIT = ConfigDef(
    (
        ConfigKey(
            "predicate",
            ConfigType.STRING,
            None,
            Importance.MEDIUM,
            "The name of the predicate that decides which records are transformed.",
        ),
        ConfigKey(
            "negate",
            ConfigType.BOOLEAN,
            default=False,
            importance=Importance.MEDIUM,
            doc="Whether records are transformed for which the predicate is false.",
        ),
    )
)
"""What every transform understands beside its own properties."""


@dataclass(frozen=True, slots=True)
class ChainResult:
    """What became of a group. A record in neither was dropped."""

    groups: Sequence[RecordGroup]
    failures: Sequence[StagedFailure] = ()


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    java_class: str
    transform: Transform
    predicate: Predicate | None = None
    negate: bool = False

    def apply(self, group: RecordGroup, retrying: Retrying = NO_RETRIES) -> ChainResult:
        passed_by: RecordGroup | None = None
        chosen: RecordGroup | None = group
        if self.predicate is not None and len(group):
            holds = self.predicate.test(group)
            chosen, passed_by = split(group, pc.invert(holds) if self.negate else holds)
        groups = [] if passed_by is None else [passed_by]
        if chosen is None:
            return ChainResult(groups)
        transformed = chosen
        try:
            result = retrying(lambda: self.transform.apply(transformed))
        except RetriableError as error:
            result = StepResult((), (failure_of(chosen.rows.to_pylist(), error),))
        groups += [each for each in result.groups if len(each)]
        failures = [StagedFailure(Stage.TRANSFORMATION, self.java_class, failure) for failure in result.failures]
        return ChainResult(groups, failures)


@dataclass(frozen=True, slots=True)
class TransformChain:
    steps: tuple[Step, ...] = ()

    def apply(self, group: RecordGroup, retrying: Retrying = NO_RETRIES) -> ChainResult:
        groups: Sequence[RecordGroup] = (group,)
        failures: list[StagedFailure] = []
        for step in self.steps:
            results = [step.apply(each, retrying) for each in groups]
            groups = [each for result in results for each in result.groups]
            failures += [failure for result in results for failure in result.failures]
        return ChainResult(groups, failures)


def build_chain(config: Mapping[str, str], *, find: Find | None = None) -> TransformChain:
    """From a connector's configuration. Raises ConfigException with the name of the property."""
    find = find or _find
    predicates = set(_names(config, "predicates"))
    steps = []
    for name in _names(config, "transforms"):
        prefix = f"transforms.{name}."
        own = {each.removeprefix(prefix): value for each, value in config.items() if each.startswith(prefix)}
        java_class, transform = _plugin(config, f"{prefix}type", Transform, find)
        predicate_name = own.pop("predicate", None)
        negate = own.pop("negate", None)
        if negate is not None and predicate_name is None:
            raise ConfigException(
                f"Config '{prefix}negate' was provided but there is no config '{prefix}predicate' defining a predicate "
                "to be negated.",
                f"{prefix}type",
            )
        _configure(transform, own, prefix)
        predicate = None
        if predicate_name is not None:
            if predicate_name not in predicates:
                raise ConfigException(f"Unknown configuration 'predicates.{predicate_name}.type'", f"{prefix}predicate")
            predicate = _predicate(config, predicate_name, find)
        is_negated = bool(parse_value(ConfigKey(f"{prefix}negate", ConfigType.BOOLEAN), negate))
        steps.append(Step(name, java_class, transform, predicate, is_negated))
    for name in sorted(predicates):
        # A predicate that no transform uses is checked as well.
        _predicate(config, name, find)
    return TransformChain(tuple(steps))


def _names(config: Mapping[str, str], key: str) -> list[str]:
    names: list[str] = parse_value(ConfigKey(key, ConfigType.LIST), config.get(key, ""))
    if len(set(names)) != len(names):
        raise invalid(key, list_text(names), "Duplicate alias provided.")
    return names


def _predicate(config: Mapping[str, str], name: str, find: Find) -> Predicate:
    prefix = f"predicates.{name}."
    _java_class, predicate = _plugin(config, f"{prefix}type", Predicate, find)
    own = {each.removeprefix(prefix): value for each, value in config.items() if each.startswith(prefix)}
    _configure(predicate, own, prefix)
    found: Predicate = predicate
    return found


def _plugin(config: Mapping[str, str], key: str, kind: type, find: Find) -> tuple[str, Any]:
    if key not in config:
        raise ConfigException(f'Missing required configuration "{key}" which has no default value.', key)
    name = config[key].strip()
    try:
        java_class, plugin = find(name, KINDS)
    except KeyError:
        raise invalid(key, name, f"Class {name} could not be found.") from None
    if not (isinstance(plugin, type) and issubclass(plugin, kind)):
        interface = "Transformation" if kind is Transform else "Predicate"
        raise invalid(key, name, f"Class class {java_class} does not implement the {interface} interface")
    return java_class, plugin()


def _configure(plugin: Transform | Predicate, own: Mapping[str, str], prefix: str) -> None:
    try:
        plugin.configure({name: value for name, value in own.items() if name not in ("type", "plugin.version")})
    except ConfigException as error:
        # The transform knows its properties without the prefix.
        name = None if error.name is None else f"{prefix}{error.name}"
        raise ConfigException(_with_prefix(str(error), error.name, prefix), name) from error


def _with_prefix(message: str, name: str | None, prefix: str) -> str:
    if name is None:
        return message
    for before in (" for configuration {}", 'required configuration "{}"', "Configuration '{}'"):
        message = message.replace(before.format(name), before.format(prefix + name), 1)
    return message


def _find(name: str, kinds: Mapping[str, str]) -> tuple[str, Any]:
    """Full names, and simple ones: `Cast$Value`."""
    for java_class, target in kinds.items():
        if name in (java_class, java_class.rpartition(".")[2]):
            module, _, attribute = target.partition(":")
            return java_class, getattr(import_module(module), attribute)
    raise KeyError(name)
