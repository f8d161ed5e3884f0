"""A conformance suite for connectors: does a source or sink keep what a worker relies on?

    class LinesAdapter(SinkAdapter): ...  # how to configure it, how to read back what it wrote

    class TestLines(SinkConformance):
        adapter = LinesAdapter

pytest collects the tests of such a class. They call the connector as a worker does, without Spark and without a broker.
"""

from penstock.testing.connectors.adapters import ConnectorAdapter, SinkAdapter, SourceAdapter
from penstock.testing.connectors.shapes import (
    BYTES_VALUE,
    KEYED,
    NESTED,
    NUMBER,
    OTHER_STRUCT,
    SCHEMALESS,
    STRUCT,
    TEXT,
    RecordShape,
    number_in,
)
from penstock.testing.connectors.sink_conformance import SinkConformance
from penstock.testing.connectors.source_conformance import SourceConformance

__all__ = [
    "BYTES_VALUE",
    "KEYED",
    "NESTED",
    "NUMBER",
    "OTHER_STRUCT",
    "SCHEMALESS",
    "STRUCT",
    "TEXT",
    "ConnectorAdapter",
    "RecordShape",
    "SinkAdapter",
    "SinkConformance",
    "SourceAdapter",
    "SourceConformance",
    "number_in",
]
