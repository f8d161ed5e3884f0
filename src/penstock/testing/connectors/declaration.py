"""Tests that sources and sinks share: definition, configuration, life on the driver."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from penstock.connect.config.answer import definition_json
from penstock.connect.config.definition import ConfigDef, ConfigException
from penstock.connect.config.parsing import parse
from penstock.connect.connector import Connector
from penstock.testing.connectors.adapters import ConnectorAdapter

NAME = "conformance"


class DeclarationConformance:
    adapter: ClassVar[type[Any]]

    @contextmanager
    def _opened(self, directory: Path) -> Iterator[Any]:
        adapter: ConnectorAdapter = self.adapter(directory)
        try:
            yield adapter
        finally:
            adapter.close()

    @property
    def _connector(self) -> type[Connector]:
        connector: type[Connector] = self.adapter.connector
        return connector

    # The definition

    def test_the_definition_is_complete(self) -> None:
        definition = self._connector.definition
        assert isinstance(definition, ConfigDef)
        without = [key.name for key in definition.keys if not key.doc.strip()]
        assert without == [], f"properties without doc: {without}"
        assert isinstance(self._connector.version, str), "a connector has a version, as text"
        assert self._connector.version

    def test_the_definition_is_shown_over_rest(self) -> None:
        shown = [definition_json(key) for key in self._connector.definition.keys]
        assert json.loads(json.dumps(shown)) == shown

    def test_defaults_are_valid(self, tmp_path: Path) -> None:
        with self._opened(tmp_path) as adapter:
            required = {key.name for key in self._connector.definition.keys if key.is_required}
            given = {name: value for name, value in adapter.config().items() if name in required}
            assert set(given) == required, "the adapter's config has all required properties"
            parse(self._connector.definition, given)

    def test_properties_of_the_adapter_are_defined(self, tmp_path: Path) -> None:
        with self._opened(tmp_path) as adapter:
            others = [name for name in adapter.config() if not name.startswith(self._connector.prefixes)]
            unknown = [name for name in others if self._connector.definition.key(name) is None]
            assert unknown == [], f"the connector reads properties that it does not define: {unknown}"

    # Configurations

    def test_check_accepts_the_configuration(self, tmp_path: Path) -> None:
        with self._opened(tmp_path) as adapter:
            assert [str(each) for each in self._connector.check(adapter.config())] == []

    def test_a_missing_property_is_named(self, tmp_path: Path) -> None:
        with self._opened(tmp_path) as adapter:
            config = adapter.config()
            for key in self._connector.definition.keys:
                if key.is_required:
                    rest = {name: value for name, value in config.items() if name != key.name}
                    assert key.name in _refusal(self._connector, rest)

    def test_check_returns_mistakes(self, tmp_path: Path) -> None:
        """For a person, and it raises nothing. A worker asks it about configurations that parse."""
        with self._opened(tmp_path) as adapter:
            for name in adapter.config():
                config = {**adapter.config(), name: "nonsense"}
                if _parses(self._connector, config):
                    for mistake in self._connector.check(config):
                        assert isinstance(mistake, ConfigException), mistake
                        assert str(mistake).strip(), "a mistake is a text for a person"

    def test_an_unknown_property_is_no_mistake(self, tmp_path: Path) -> None:
        """A worker warns of it, and passes properties of its own along."""
        with self._opened(tmp_path) as adapter:
            config = {**adapter.config(), "name": NAME, "tasks.max": "2", "transforms": "", "no.such.property": "x"}
            self._connector(NAME, config)
            assert list(self._connector.check(config)) == []

    # Its life on the driver

    def test_it_is_made_without_opening_anything(self, tmp_path: Path) -> None:
        """A worker makes connectors to ask for their number of tasks."""
        with self._opened(tmp_path) as adapter:
            before = sorted(tmp_path.rglob("*"))
            connector = self._connector(NAME, adapter.config())
            for tasks_max in (1, 2, 7):
                assert 1 <= connector.task_count(tasks_max) <= tasks_max
            assert sorted(tmp_path.rglob("*")) == before

    def test_it_starts_again_after_a_stop(self, tmp_path: Path) -> None:
        with self._opened(tmp_path) as adapter:
            connector = self._connector(NAME, adapter.config())
            connector.stop()
            for _ in range(2):
                connector.start()
                connector.stop()
                connector.stop()

    def test_it_is_pickled_into_tasks(self, tmp_path: Path) -> None:
        with self._opened(tmp_path) as adapter:
            connector = self._connector(NAME, adapter.config())
            pickle.dumps(connector)
            connector.start()
            try:
                copy = pickle.loads(pickle.dumps(connector))  # noqa: S301 (our own)
            finally:
                connector.stop()
            assert (copy.name, dict(copy.config)) == (NAME, dict(adapter.config()))


def _parses(connector: type[Connector], config: Mapping[str, str]) -> bool:
    try:
        parse(connector.definition, config)
    except ConfigException:
        return False
    return True


def _refusal(connector: type[Connector], config: Mapping[str, str]) -> str:
    try:
        connector(NAME, config)
    except ConfigException as mistake:
        return str(mistake)
    raise AssertionError(f"{connector.__name__} accepted {dict(config)}")
