"""Properties of a connector's configuration that no part of it reads: usually a misspelled name.

Kafka Connect ignores them silently. Owns the texts of the warnings.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Final

from penstock.connect.config.overrides import PREFIXES

_CONVERTERS: Final = ("key.converter", "value.converter", "header.converter")


def unknown_properties(
    config: Mapping[str, str], defined: Collection[str], prefixes: tuple[str, ...] = ()
) -> list[str]:
    """A line for each, with the name that may have been meant. `prefixes` are those of the connector."""
    names = (name for name in config if name not in defined and not name.startswith((*PREFIXES, *prefixes)))
    return [_warning(name, config, defined) for name in names]


def _warning(name: str, config: Mapping[str, str], defined: Collection[str]) -> str:
    for converter in _CONVERTERS:
        if name.startswith(f"{converter}.") and converter not in config:
            return f"{name}: ignored, because the configuration does not set {converter}"
    for kind in ("transforms", "predicates"):
        if name.startswith(f"{kind}."):
            alias = name.split(".")[1]
            if f"{kind}.{alias}.type" not in defined:
                return f"{name}: ignored, because '{alias}' is not in {kind}"
    return f"{name}: unknown property{_hint(name, defined)}"


def _hint(name: str, defined: Iterable[str]) -> str:
    close = get_close_matches(name, list(defined), 1, cutoff=0.8)
    return f"; did you mean '{close[0]}'?" if close else ""
