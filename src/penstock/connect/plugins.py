"""Connectors, converters, transforms and predicates by the names that configurations use.

A plugin has a Java class name, because that is what Kafka Connect's configurations say. It can also be named by an
alias, as in Kafka Connect: its simple name (`FileStreamSinkConnector`), and its simple name without the suffix of its
kind (`FileStreamSink`), unless two plugins would share the alias.

Owns names and the import of plugins on first use. It must not know what plugins do.

Invariant: resolving a name imports nothing; only `load` and `listed` import the modules of plugins.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points, version
from typing import Any, Final, Literal

from penstock.connect.config.definition import ConfigDef

ENTRY_POINT_GROUP: Final = "penstock.connectors"

Interface = Literal["Connector", "Converter", "HeaderConverter", "Transformation", "Predicate"]
PluginType = Literal["source", "sink", "converter", "header_converter", "transformation", "predicate"]

_TYPES_IN_ORDER: Final[tuple[PluginType, ...]] = (
    "sink",
    "source",
    "transformation",
    "predicate",
    "converter",
    "header_converter",
)
_SUFFIXES: Final[Mapping[Interface, str]] = {
    "Connector": "Connector",
    "Converter": "Converter",
    "HeaderConverter": "HeaderConverter",
    "Transformation": "Transformation",
    "Predicate": "Predicate",
}


class UnknownPlugin(Exception):
    """No plugin has this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Class {name} could not be found.")
        self.name = name


class WrongInterface(Exception):
    """A plugin has this name, and is something else. `class_name` is its full name."""

    def __init__(self, class_name: str, interface: Interface) -> None:
        super().__init__(f"Class class {class_name} does not implement the {interface} interface")
        self.class_name = class_name


class BrokenPlugin(Exception):
    """The module of a plugin cannot be imported, usually because a package is not installed."""


@dataclass(frozen=True, slots=True)
class LoadedPlugin:
    class_name: str
    type: PluginType
    implementation: Any

    @property
    def version(self) -> str:
        return str(getattr(self.implementation, "version", None) or version("penstock"))

    @property
    def definition(self) -> ConfigDef:
        """Raises BrokenPlugin."""
        declared = getattr(self.implementation, "definition", None)
        if not isinstance(declared, ConfigDef) and self.type == "header_converter":
            # One that adapts a converter has the definition of what it adapts.
            declared = getattr(self.implementation(), "definition", None)
        if not isinstance(declared, ConfigDef):
            raise BrokenPlugin(f"plugin {self.class_name} has no `definition` of its properties")
        return declared


@dataclass(frozen=True, slots=True)
class Tables:
    """Java class name -> `module:Class`, by kind."""

    connectors: Mapping[str, str]
    converters: Mapping[str, str]
    header_converters: Mapping[str, str]
    transforms: Mapping[str, str]
    predicates: Mapping[str, str]


def builtin_tables() -> Tables:
    from penstock.connect.connectors.kinds import KINDS as CONNECTORS
    from penstock.connect.converters.kinds import HEADER_KINDS, KINDS
    from penstock.connect.transforms.kinds import KINDS as TRANSFORMS
    from penstock.connect.transforms.kinds import PREDICATE_KINDS

    connectors = {**CONNECTORS, **_installed(entry_points(group=ENTRY_POINT_GROUP))}
    transforms = {name: target for name, target in TRANSFORMS.items() if name not in PREDICATE_KINDS}
    return Tables(connectors, KINDS, HEADER_KINDS, transforms, PREDICATE_KINDS)


def _installed(points: Iterable[EntryPoint]) -> dict[str, str]:
    return {point.name: point.value for point in points}


class Plugins:
    """Threads may share it."""

    def __init__(self, tables: Tables | None = None) -> None:
        self._tables = builtin_tables() if tables is None else tables
        self._aliases = self._unique_aliases()
        self._loaded: dict[tuple[str, str], LoadedPlugin] = {}
        self._lock = threading.Lock()

    def resolve(self, name: str) -> str:
        """The full class name of a name or an alias. Raises UnknownPlugin."""
        if any(name in table for table in self._all_tables()):
            return name
        if name not in self._aliases:
            raise UnknownPlugin(name)
        return self._aliases[name]

    def require(self, interface: Interface, name: str) -> str:
        """The full class name of a plugin of this kind; imports nothing. Raises UnknownPlugin, WrongInterface."""
        class_name = self.resolve(name)
        if class_name not in self._table(interface):
            raise WrongInterface(class_name, interface)
        return class_name

    def load(self, interface: Interface, name: str) -> LoadedPlugin:
        """Raises UnknownPlugin, WrongInterface, BrokenPlugin."""
        class_name = self.require(interface, name)
        plugin = self._load(class_name, self._table(interface)[class_name])
        if plugin.type not in _TYPES_OF[interface]:
            raise WrongInterface(class_name, interface)
        return plugin

    def find(self, name: str) -> LoadedPlugin:
        """A plugin of any kind. Raises UnknownPlugin, BrokenPlugin."""
        class_name = self.resolve(name)
        table = next(table for table in self._all_tables() if class_name in table)
        return self._load(class_name, table[class_name])

    def names(self, interface: Interface) -> list[str]:
        """Full class names, sorted."""
        return sorted(self._table(interface))

    def listed(self, *, connectors_only: bool) -> list[LoadedPlugin]:
        """In the order of Kafka Connect: by type, then by class name. A plugin that cannot be imported is left out."""
        tables = [self._tables.connectors] if connectors_only else self._all_tables()
        loaded = []
        for table in tables:
            for class_name, target in table.items():
                try:
                    loaded.append(self._load(class_name, target))
                except BrokenPlugin:
                    continue
        return sorted(loaded, key=lambda plugin: (_TYPES_IN_ORDER.index(plugin.type), plugin.class_name))

    def _table(self, interface: Interface) -> Mapping[str, str]:
        match interface:
            case "Connector":
                return self._tables.connectors
            case "Converter":
                return self._tables.converters
            case "HeaderConverter":
                return self._tables.header_converters
            case "Transformation":
                return self._tables.transforms
        return self._tables.predicates

    def _all_tables(self) -> tuple[Mapping[str, str], ...]:
        tables = self._tables
        return (
            tables.connectors,
            tables.converters,
            tables.header_converters,
            tables.transforms,
            tables.predicates,
        )

    def _load(self, class_name: str, target: str) -> LoadedPlugin:
        with self._lock:
            if (class_name, target) not in self._loaded:
                self._loaded[class_name, target] = _imported(class_name, target)
            return self._loaded[class_name, target]

    def _unique_aliases(self) -> dict[str, str]:
        owners: dict[str, set[str]] = {}
        interfaces: tuple[Interface, ...] = ("Connector", "Converter", "HeaderConverter", "Transformation", "Predicate")
        for interface in interfaces:
            for class_name in self.names(interface):
                simple = class_name.rpartition(".")[2].rpartition("$")[2]
                pruned = simple.removesuffix(_SUFFIXES[interface])
                for alias in filter(None, (simple, pruned)):
                    owners.setdefault(alias, set()).add(class_name)
        return {alias: next(iter(classes)) for alias, classes in owners.items() if len(classes) == 1}


_TYPES_OF: Final[Mapping[Interface, frozenset[PluginType]]] = {
    "Connector": frozenset({"source", "sink"}),
    "Converter": frozenset({"converter"}),
    "HeaderConverter": frozenset({"header_converter"}),
    "Transformation": frozenset({"transformation"}),
    "Predicate": frozenset({"predicate"}),
}


def _imported(class_name: str, target: str) -> LoadedPlugin:
    module, _, name = target.partition(":")
    try:
        implementation = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as failure:
        raise BrokenPlugin(f"plugin {class_name} cannot be loaded: {failure}") from failure
    plugin = LoadedPlugin(class_name, _type_of(implementation), implementation)
    _ = plugin.definition  # a plugin without one is found here, and not when it is used
    return plugin


def _type_of(implementation: Any) -> PluginType:
    from penstock.connect.connector import SinkConnector, SourceConnector
    from penstock.connect.converters.converter import Converter, HeaderConverter
    from penstock.connect.transforms.transform import Predicate, Transform

    types: tuple[tuple[type[Any], PluginType], ...] = (
        (SourceConnector, "source"),
        (SinkConnector, "sink"),
        (Converter, "converter"),
        (HeaderConverter, "header_converter"),
        (Transform, "transformation"),
        (Predicate, "predicate"),
    )
    for interface, kind in types:
        if isinstance(implementation, type) and issubclass(implementation, interface):
            return kind
    raise BrokenPlugin(f"{implementation} is no connector, converter, transform or predicate")
