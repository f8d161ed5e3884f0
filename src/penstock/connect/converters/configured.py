"""The three converters of a connector, made from its configuration and the worker's.

As in Kafka Connect, a connector that names a converter's class configures it with its own properties only; without one,
the worker's class and properties apply. Header converters default to SimpleHeaderConverter.

Owns which converter a connector has. It must not know formats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from penstock.connect.config.definition import ConfigException
from penstock.connect.converters.converter import Converter, HeaderConverter
from penstock.connect.converters.kinds import HEADER_KINDS, KINDS, SIMPLE_HEADER_CONVERTER

_VERSION: Final = ".plugin.version"


@dataclass(frozen=True, slots=True)
class Converters:
    """Picklable. The classes are Java names, for dead letters."""

    key: Converter
    value: Converter
    header: HeaderConverter
    key_class: str
    value_class: str
    header_class: str


def resolve(name: str) -> Any:
    """The Python class of a `module:Class` of a table of plugins."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)


def converters_of(
    config: Mapping[str, str],
    worker: Mapping[str, str],
    *,
    find: Callable[[str, Mapping[str, str]], tuple[str, Any]] | None = None,
) -> Converters:
    """`config` is the connector's, `worker` the worker's. Raises ConfigException.

    `find` resolves a class name or an alias, in a table of kinds, to the Java name and the Python class.
    """
    find = find or _find
    key_class, key = _converter("key.converter", config, worker, find)
    value_class, value = _converter("value.converter", config, worker, find)
    header_class, header = _header_converter(config, worker, find)
    return Converters(key, value, header, key_class, value_class, header_class)


def _converter(name: str, config: Mapping[str, str], worker: Mapping[str, str], find: Any) -> tuple[str, Converter]:
    properties = config if name in config else worker
    if name not in properties:
        raise ConfigException(f'Missing required configuration "{name}" which has no default value.', name)
    java_class, kind = _found(name, properties[name], KINDS, find)
    converter: Converter = kind()
    converter.configure(_with_prefix(properties, name), is_key=name == "key.converter")
    return java_class, converter


def _header_converter(config: Mapping[str, str], worker: Mapping[str, str], find: Any) -> tuple[str, HeaderConverter]:
    name = "header.converter"
    properties = config if name in config else worker
    java_class, kind = _found(name, properties.get(name, SIMPLE_HEADER_CONVERTER), HEADER_KINDS, find)
    converter: HeaderConverter = kind()
    converter.configure(_with_prefix(properties, name))
    return java_class, converter


def _found(name: str, java_class: str, kinds: Mapping[str, str], find: Any) -> tuple[str, Any]:
    try:
        found: tuple[str, Any] = find(java_class.strip(), kinds)
    except KeyError:
        raise ConfigException(
            f"Invalid value {java_class} for configuration {name}: Class {java_class} could not be found.", name
        ) from None
    return found


def _find(java_class: str, kinds: Mapping[str, str]) -> tuple[str, Any]:
    """Full names, and the aliases that Kafka Connect derives from them: `JsonConverter`, `Json`."""
    for known, target in kinds.items():
        simple = known.rpartition(".")[2]
        if java_class in (known, simple, simple.removesuffix("HeaderConverter"), simple.removesuffix("Converter")):
            return known, resolve(target)
    raise KeyError(java_class)


def _with_prefix(properties: Mapping[str, str], name: str) -> dict[str, str]:
    prefix = f"{name}."
    return {
        each.removeprefix(prefix): value
        for each, value in properties.items()
        if each.startswith(prefix) and each != f"{name}{_VERSION}"
    }
