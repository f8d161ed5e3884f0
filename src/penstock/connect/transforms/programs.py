"""Sql and Python: transforms that a user writes as a query or a function, on tables of many records at once.

Both get the records of a group as one table (tables.py), and must treat each record for itself: which records share a
group is chance. So a query that aggregates is refused when the connector is configured.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final

import numpy as np
import pyarrow as pa

from penstock.connect.config.definition import ConfigDef, ConfigException, ConfigKey, ConfigType, Importance
from penstock.connect.config.parsing import invalid, parse
from penstock.connect.connector import RetriableError
from penstock.connect.data.records import Column, RecordGroup, StepResult
from penstock.connect.transforms.java.values import CONNECT_EXCEPTION
from penstock.connect.transforms.parts import PartTransform, RecordError, all_failed, merge
from penstock.connect.transforms.tables import PSEUDO_COLUMNS, from_table, to_table

_TABLE: Final = "record"


class Sql(PartTransform):
    """The connection to DuckDB is opened in the task that uses it."""

    part = "value"
    definition = ConfigDef(
        (
            ConfigKey(
                "query",
                ConfigType.STRING,
                importance=Importance.HIGH,
                doc="A SELECT over the table `record`, in DuckDB's SQL. The table has the fields of the value, and the "
                "columns _topic, _key and _timestamp. Each record is selected for itself: the query may compute, "
                "filter and unnest; it may not aggregate, sort or limit.",
            ),
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        text = parse(self.definition, config)["query"]
        self._connection: Any = None
        self._query = self._with_row(text.rstrip().rstrip(";"))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connection": None}

    def apply_present(self, group: RecordGroup, column: Column) -> StepResult:
        import duckdb

        try:
            return StepResult((self._selected(group),))
        except duckdb.DataError as error:
            # Some record cannot be computed. Halves are tried until it is found.
            if len(group) > 1:
                middle = len(group) // 2
                halves = (group.take(pa.array(np.arange(middle))), group.take(pa.array(np.arange(middle, len(group)))))
                return merge([self.apply_present(half, half.value) for half in halves])
            return all_failed(group, RecordError(_first_line(error)))
        except duckdb.Error as error:
            raise RecordError(_first_line(error)) from None

    def _selected(self, group: RecordGroup) -> RecordGroup:
        connection = self._connected()
        connection.register(_TABLE, to_table(group))
        try:
            selected = connection.sql(self._query).to_arrow_table()
        finally:
            connection.unregister(_TABLE)
        return from_table(group, selected)

    def _connected(self) -> Any:
        if self._connection is None:
            import duckdb

            # Tasks share the machine's cores; and a query must not read files of the worker.
            self._connection = duckdb.connect(":memory:", config={"threads": 1, "enable_external_access": "false"})
        return self._connection

    def _with_row(self, query: str) -> str:
        """Adds the number of the record to what is selected, and takes pseudo columns out of `*`."""
        tree = self._parsed(query)
        self._check(query, tree)
        node = tree["statements"][0]["node"]
        pattern = self._parsed(f"SELECT * EXCLUDE ({', '.join(PSEUDO_COLUMNS)}), _row FROM {_TABLE}")  # noqa: S608 (constants)
        star, row = pattern["statements"][0]["node"]["select_list"]
        for each in node["select_list"]:
            if each["class"] == "STAR":
                each["exclude_list"] = [*each["exclude_list"], *star["exclude_list"]]
        node["select_list"].append(row)
        found: str = self._ask("SELECT json_deserialize_sql(?::JSON)", json.dumps(tree))
        return found

    def _parsed(self, query: str) -> Any:
        return json.loads(self._ask("SELECT json_serialize_sql(?::VARCHAR)", query))

    def _ask(self, query: str, parameter: str) -> Any:
        return self._connected().execute(query, [parameter]).fetchall()[0][0]

    def _check(self, query: str, tree: Any) -> None:
        if tree["error"]:
            raise invalid("query", query, tree["error_message"])
        statements = tree["statements"]
        if len(statements) != 1 or statements[0]["node"]["type"] != "SELECT_NODE":
            raise invalid("query", query, "Expected a single SELECT without UNION, INTERSECT or EXCEPT")
        node = statements[0]["node"]
        if node["modifiers"] or node["sample"] or node["qualify"]:
            raise invalid("query", query, "DISTINCT, ORDER BY, LIMIT, SAMPLE and QUALIFY are not possible for a record")
        if not _reads_record(node["from_table"]):
            raise invalid("query", query, f"The query has to select from the table {_TABLE}")
        if node["group_expressions"] or node["having"] or any(_aggregates(node["select_list"])):
            raise invalid("query", query, "Aggregates and windows are not possible for a record")


def _aggregates(tree: Any) -> Iterator[bool]:
    """For each function of the tree, without its subqueries."""
    if isinstance(tree, list):
        for each in tree:
            yield from _aggregates(each)
    elif isinstance(tree, dict) and tree.get("class") != "SUBQUERY":
        if tree.get("class") == "WINDOW":
            yield True
        elif tree.get("class") == "FUNCTION":
            yield tree["function_name"].lower() in _aggregate_names()
        for each in tree.values():
            yield from _aggregates(each)


@cache
def _aggregate_names() -> frozenset[str]:
    import duckdb

    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        query = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'aggregate'"
        return frozenset(name.lower() for (name,) in connection.execute(query).fetchall())


def _reads_record(tree: Any) -> bool:
    """The table itself, or a join with it."""
    if not isinstance(tree, dict):
        return False
    if tree.get("type") == "BASE_TABLE":
        return bool(tree["table_name"].lower() == _TABLE)
    return tree.get("type") == "JOIN" and (_reads_record(tree["left"]) or _reads_record(tree["right"]))


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


class Python(PartTransform):
    """The function is imported when the connector is configured, and again in each task."""

    part = "value"
    definition = ConfigDef(
        (
            ConfigKey(
                "function",
                ConfigType.STRING,
                importance=Importance.HIGH,
                doc="The function, as module:function. It takes a pyarrow.Table with the fields of the values and the "
                "columns _topic, _key, _timestamp and _row, and returns a table with the fields of the new values. If "
                "it drops, repeats or reorders records, the table has to keep the column _row.",
            ),
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        self._name: str = parse(self.definition, config)["function"]
        self._function()

    def _function(self) -> Callable[[pa.Table], pa.Table]:
        module, colon, name = self._name.partition(":")
        if not (module and colon and name):
            raise invalid("function", self._name, "Expected module:function")
        try:
            found = getattr(import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise invalid("function", self._name, f"{error}") from None
        if not callable(found):
            raise ConfigException(f"Invalid value {self._name} for configuration function: Not a function", "function")
        function: Callable[[pa.Table], pa.Table] = found
        return function

    def apply_present(self, group: RecordGroup, column: Column) -> StepResult:
        function = self._function()
        try:
            result = function(to_table(group))
        except RetriableError:
            raise
        except Exception as error:  # whatever a user's function raises is a failure of its records
            raise RecordError(f"{self._name}: {type(error).__name__}: {error}", CONNECT_EXCEPTION) from error
        return StepResult((from_table(group, self._checked(result, len(group))),))

    def _checked(self, result: Any, length: int) -> pa.Table:
        if not isinstance(result, pa.Table):
            why = f"{self._name} returned {type(result).__name__}, not a pyarrow.Table"
            raise RecordError(why, CONNECT_EXCEPTION)
        if "_row" not in result.column_names:
            if len(result) != length:
                why = f"{self._name} returned {len(result)} rows for {length} records, without the column _row"
                raise RecordError(why, CONNECT_EXCEPTION)
            return result.append_column("_row", pa.array(np.arange(length, dtype=np.int64)))
        return result
