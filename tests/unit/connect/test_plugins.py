"""Names and aliases of plugins."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from penstock.connect.config.connector_config import WorkerDefaults
from penstock.connect.config.definition import ConfigDef
from penstock.connect.config.validation import BadRequest, validate
from penstock.connect.connector import Slice, SourceConnector
from penstock.connect.plugins import BrokenPlugin, Plugins, Tables, UnknownPlugin, WrongInterface
from penstock.connect.transforms.kinds import KINDS as TRANSFORMS
from penstock.connect.transforms.kinds import PREDICATE_KINDS

_FILTER = "org.apache.kafka.connect.transforms.Filter"
_TOMBSTONE = "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone"
PLUGINS = Plugins(
    Tables(
        {"a.FileSinkConnector": "no.such.module:Sink", "a.OtherSinkConnector": "x:Y", "b.OtherSinkConnector": "x:Y"},
        {"a.TextConverter": "x:Y"},
        {},
        TRANSFORMS,
        PREDICATE_KINDS,
    )
)


class OrdersSource(SourceConnector):
    version = "7"
    definition = ConfigDef()

    def plan(self, offsets: Any) -> Sequence[Slice]:
        return ()

    def read(self, slice_: Slice) -> Any:
        return iter(())


@pytest.mark.parametrize(
    ("name", "class_name"),
    [
        ("a.FileSinkConnector", "a.FileSinkConnector"),
        ("FileSinkConnector", "a.FileSinkConnector"),
        ("FileSink", "a.FileSinkConnector"),
        ("Text", "a.TextConverter"),
        ("Filter", _FILTER),
        ("RecordIsTombstone", _TOMBSTONE),
    ],
)
def test_names_and_aliases(name: str, class_name: str) -> None:
    assert PLUGINS.resolve(name) == class_name


@pytest.mark.parametrize("name", ["OtherSink", "Value", "Cast$Value", "", "Connector", "filter"])
def test_what_is_ambiguous_or_unknown_has_no_plugin(name: str) -> None:
    with pytest.raises(UnknownPlugin, match=f"Class .*{name.rpartition('$')[2]} could not be found"):
        PLUGINS.resolve(name)


def test_a_plugin_of_another_kind_is_refused() -> None:
    assert PLUGINS.load("Transformation", "Filter").type == "transformation"
    with pytest.raises(WrongInterface, match=f"Class class {_TOMBSTONE} does not implement the Transformation"):
        PLUGINS.load("Transformation", "RecordIsTombstone")


def test_a_plugin_that_cannot_be_imported_hides_no_other() -> None:
    with pytest.raises(BrokenPlugin, match=r"a\.FileSinkConnector cannot be loaded: No module named 'no'"):
        PLUGINS.load("Connector", "FileSink")
    names = [plugin.class_name for plugin in PLUGINS.listed(connectors_only=False)]
    assert _FILTER in names
    assert "a.FileSinkConnector" not in names


def test_connectors_of_other_packages_are_found_by_their_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    def installed(group: str) -> list[EntryPoint]:
        return [EntryPoint("com.example.OrdersSource", f"{__name__}:OrdersSource", group)]

    monkeypatch.setattr("penstock.connect.plugins.entry_points", installed)
    found = Plugins().load("Connector", "OrdersSource")
    assert (found.class_name, found.type, found.version) == ("com.example.OrdersSource", "source", "7")


def test_builtin_plugins_load_and_are_listed_as_kafka_connect_lists_them() -> None:
    listed = Plugins().listed(connectors_only=False)
    assert [plugin.type for plugin in listed] == sorted(
        (plugin.type for plugin in listed),
        key=["sink", "source", "transformation", "predicate", "converter", "header_converter"].index,
    )
    assert {plugin.type for plugin in Plugins().listed(connectors_only=True)} == {"sink", "source"}
    for plugin in listed:
        assert plugin.definition.keys is not None
        assert plugin.version


def test_every_builtin_plugin_can_be_checked_without_any_property() -> None:
    """Validators see null where a required property is missing."""
    plugins = Plugins()
    for plugin in plugins.listed(connectors_only=False):
        if plugin.type in ("source", "sink"):
            found = validate(plugins, {"connector.class": plugin.class_name}, WorkerDefaults())
        elif plugin.type == "transformation":
            config = {"connector.class": "FileStreamSink", "transforms": "t", "transforms.t.type": plugin.class_name}
            found = validate(plugins, config, WorkerDefaults())
        elif plugin.type == "predicate":
            config = {"connector.class": "FileStreamSink", "predicates": "p", "predicates.p.type": plugin.class_name}
            found = validate(plugins, config, WorkerDefaults())
        else:
            part = "value" if plugin.type == "converter" else "header"
            config = {"connector.class": "FileStreamSink", f"{part}.converter": plugin.class_name}
            found = validate(plugins, config, WorkerDefaults())
        assert 'Missing required configuration "name" which has no default value.' in found.errors
        assert found.as_json()["configs"]


class WithoutDefinition(SourceConnector):
    def plan(self, offsets: Any) -> Sequence[Slice]:
        return ()


def test_a_plugin_without_a_definition_is_broken() -> None:
    plugins = Plugins(Tables({"a.Source": f"{__name__}:WithoutDefinition"}, {}, {}, {}, {}))
    with pytest.raises(BrokenPlugin, match=r"plugin a.Source has no `definition`"):
        plugins.load("Connector", "a.Source")
    with pytest.raises(BadRequest, match="definition"):
        validate(plugins, {"connector.class": "a.Source"}, WorkerDefaults())


def test_the_registry_and_rest_import_neither_arrow_nor_spark() -> None:
    code = (
        "import sys; from penstock.connect.plugins import Plugins; import penstock.connect.rest.application,"
        " penstock.connect.rest.server, penstock.connect.worker_plugins, penstock.connect.worker_config;"
        " Plugins().require('Connector', 'FileStreamSink');"
        " print([name for name in ('pyarrow', 'pyspark', 'numpy', 'duckdb') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
