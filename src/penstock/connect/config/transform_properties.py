"""The properties that the transforms and predicates of a configuration add to it: `transforms.NAME.type` and theirs.

Owns their definitions, which Kafka Connect makes from those of the plugins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock.connect.config.connector_config import (
    PREDICATES_GROUP,
    TRANSFORMS_GROUP,
    has_version,
    implements,
    versions,
)
from penstock.connect.config.definition import ConfigKey, ConfigType, Importance, Width
from penstock.connect.plugins import BrokenPlugin, Interface, LoadedPlugin, Plugins, UnknownPlugin, WrongInterface


@dataclass(frozen=True, slots=True)
class Kind:
    """Transforms or predicates of a configuration."""

    property: str
    group: str
    title: str
    interface: Interface
    more: tuple[ConfigKey, ...] = ()


TRANSFORMS: Final = Kind(
    "transforms",
    TRANSFORMS_GROUP,
    "Transformation",
    "Transformation",
    (
        ConfigKey(
            "predicate",
            ConfigType.STRING,
            None,
            Importance.MEDIUM,
            "The name of a predicate: records that it is true for are transformed.",
        ),
        ConfigKey(
            "negate",
            ConfigType.BOOLEAN,
            "false",
            Importance.MEDIUM,
            "Whether records that the predicate is false for are transformed instead.",
        ),
    ),
)
PREDICATES: Final = Kind("predicates", PREDICATES_GROUP, "Predicate", "Predicate")


def enriched(kind: Kind, plugins: Plugins, config: Mapping[str, str], aliases: Iterable[str]) -> Sequence[ConfigKey]:
    """`transforms.NAME.type`, and the properties of that type."""
    keys: list[ConfigKey] = []
    for alias in dict.fromkeys(aliases):
        prefix, group = f"{kind.property}.{alias}.", f"{kind.group}: {alias}"
        try:
            plugin = plugins.load(kind.interface, config.get(f"{prefix}type", "").strip())
        except (UnknownPlugin, WrongInterface, BrokenPlugin):
            plugin = None
        keys += _type_and_version(kind, plugins, prefix, group, alias, plugin)
        if plugin is not None:
            own = _in_kafkas_order((*kind.more, *plugin.definition.keys))
            keys += [_embedded(key, prefix, group, order) for order, key in enumerate(own, start=2)]
    return keys


def _type_and_version(
    kind: Kind, plugins: Plugins, prefix: str, group: str, alias: str, plugin: LoadedPlugin | None
) -> Sequence[ConfigKey]:
    version = None if plugin is None else plugin.version
    placed: dict[str, Any] = {"group": group, "width": Width.LONG}
    return (
        ConfigKey(
            f"{prefix}type",
            ConfigType.CLASS,
            importance=Importance.HIGH,
            doc=f"The class of '{alias}'.",
            order_in_group=0,
            display_name=f"{kind.title} type for {alias}",
            validator=implements(plugins, kind.interface),
            recommender=lambda _name, _config: plugins.names(kind.interface),
            **placed,
        ),
        ConfigKey(
            f"{prefix}plugin.version",
            ConfigType.STRING,
            version,
            Importance.HIGH,
            f"The version of '{alias}'.",
            order_in_group=1,
            display_name=f"{kind.title} version for {alias}",
            recommender=versions(version),
            validator=has_version(version),
            **placed,
        ),
    )


def _in_kafkas_order(keys: Iterable[ConfigKey]) -> list[ConfigKey]:
    """As ConfigDef sorts them: required ones first, then by importance and name."""
    importances = list(Importance)
    return sorted(keys, key=lambda key: (not key.is_required, importances.index(key.importance), key.name))


def _embedded(key: ConfigKey, prefix: str, group: str, order: int) -> ConfigKey:
    own = key.validator

    def check(name: str, value: Any) -> None:
        # Validators of plugins name the property as the plugin knows it, in Kafka Connect too.
        if own is not None:
            own(name.removeprefix(prefix), value)

    return replace(
        key,
        name=prefix + key.name,
        group=group,
        order_in_group=order,
        display_name=key.display_name or key.name,
        validator=check,
        dependents=tuple(prefix + each for each in key.dependents),
    )
