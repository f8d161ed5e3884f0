"""The public interface for authors of connectors: docs/connectors.md shows how to use it.

Everything in the modules below is private, except what has its name here. Names are imported when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from penstock.connect.config.definition import (
        REQUIRED,
        ConfigDef,
        ConfigException,
        ConfigKey,
        ConfigType,
        Importance,
    )
    from penstock.connect.config.parsing import at_least, between, non_empty, one_of, parse
    from penstock.connect.connector import (
        Batch,
        BatchRefused,
        ConnectError,
        Connector,
        RetriableError,
        SinkConnector,
        SinkWriter,
        Slice,
        SourceConnector,
        SourceOffset,
        SourcePartition,
        SourceRows,
        WrittenRows,
        offset_of,
        partition_key,
    )
    from penstock.connect.data.records import Column, Failure, RecordGroup
    from penstock.connect.data.schema import (
        BOOLEAN,
        BYTES,
        FLOAT32,
        FLOAT64,
        INT8,
        INT16,
        INT32,
        INT64,
        STRING,
        Field,
        Schema,
        Type,
        date,
        decimal,
        struct,
        time,
        timestamp,
    )
    from penstock.core.guarantee import Guarantee
    from penstock.core.ids import TopicPartition

__all__ = [
    "BOOLEAN",
    "BYTES",
    "FLOAT32",
    "FLOAT64",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "REQUIRED",
    "STRING",
    "Batch",
    "BatchRefused",
    "Column",
    "ConfigDef",
    "ConfigException",
    "ConfigKey",
    "ConfigType",
    "ConnectError",
    "Connector",
    "Failure",
    "Field",
    "Guarantee",
    "Importance",
    "RecordGroup",
    "RetriableError",
    "Schema",
    "SinkConnector",
    "SinkWriter",
    "Slice",
    "SourceConnector",
    "SourceOffset",
    "SourcePartition",
    "SourceRows",
    "TopicPartition",
    "Type",
    "WrittenRows",
    "at_least",
    "between",
    "date",
    "decimal",
    "non_empty",
    "offset_of",
    "one_of",
    "parse",
    "partition_key",
    "struct",
    "time",
    "timestamp",
]

_HOMES: Final = {
    "BOOLEAN": "connect.data.schema",
    "BYTES": "connect.data.schema",
    "Batch": "connect.connector",
    "BatchRefused": "connect.connector",
    "Column": "connect.data.records",
    "ConfigDef": "connect.config.definition",
    "ConfigException": "connect.config.definition",
    "ConfigKey": "connect.config.definition",
    "ConfigType": "connect.config.definition",
    "ConnectError": "connect.connector",
    "Connector": "connect.connector",
    "FLOAT32": "connect.data.schema",
    "FLOAT64": "connect.data.schema",
    "Failure": "connect.data.records",
    "Field": "connect.data.schema",
    "Guarantee": "core.guarantee",
    "INT16": "connect.data.schema",
    "INT32": "connect.data.schema",
    "INT64": "connect.data.schema",
    "INT8": "connect.data.schema",
    "Importance": "connect.config.definition",
    "REQUIRED": "connect.config.definition",
    "RecordGroup": "connect.data.records",
    "RetriableError": "connect.connector",
    "STRING": "connect.data.schema",
    "Schema": "connect.data.schema",
    "SinkConnector": "connect.connector",
    "SinkWriter": "connect.connector",
    "Slice": "connect.connector",
    "SourceConnector": "connect.connector",
    "SourceOffset": "connect.connector",
    "SourcePartition": "connect.connector",
    "SourceRows": "connect.connector",
    "TopicPartition": "core.ids",
    "Type": "connect.data.schema",
    "WrittenRows": "connect.connector",
    "at_least": "connect.config.parsing",
    "between": "connect.config.parsing",
    "date": "connect.data.schema",
    "decimal": "connect.data.schema",
    "non_empty": "connect.config.parsing",
    "offset_of": "connect.connector",
    "one_of": "connect.config.parsing",
    "parse": "connect.config.parsing",
    "partition_key": "connect.connector",
    "struct": "connect.data.schema",
    "time": "connect.data.schema",
    "timestamp": "connect.data.schema",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'penstock.connect' has no attribute '{name}'")
    from importlib import import_module

    try:
        found = getattr(import_module(f"penstock.{home}"), name)
    except ModuleNotFoundError as missing:
        raise ImportError(f"penstock.connect needs {missing.name}: pip install 'penstock[connect]'") from missing
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
