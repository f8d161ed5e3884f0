"""A worker's loop over a JDBC sink, as a process that tests kill. Arguments: JSON of the configuration, the directory
of the consumer group's position, the number of records, and how many a batch has.

The position of a sink without a ledger is a file, which stands for the consumer group: for at_most_once it is written
before a batch, for at_least_once behind it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from penstock.connect.connectors.jdbc.sink.connector import JdbcSink
from penstock.connect.data.schema import INT64, STRING, struct
from penstock.core.ids import TopicPartition
from tests.unit.connect.connectors.jdbc.jdbc import batch, group, staged

ORDER = struct({"id": INT64, "item": STRING})
PARTITION = TopicPartition("orders", 0)


def run(config: dict[str, str], directory: Path, records: int, batch_rows: int) -> None:
    connector = JdbcSink("orders-sink", config)
    connector.start()
    committed = directory / "position"
    found = connector.positions([PARTITION])
    if found is not None:
        position = found.get(PARTITION, 0)
    else:
        position = int(committed.read_text()) if committed.exists() else 0
    while position < records:
        end = min(position + batch_rows, records)
        if config["guarantee"] == "at_most_once":
            committed.write_text(str(end))
        rows = [{"id": each, "item": "x" * 30} for each in range(position, end)]
        result, _ = staged(connector, [group(ORDER, rows, first_offset=position)])
        connector.commit([result], batch(position, end))
        if config["guarantee"] == "at_least_once":
            committed.write_text(str(end))
        position = end
    connector.stop()


if __name__ == "__main__":
    run(json.loads(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
