"""How the rows of a query reach the sink "penstock": as they are, or arranged for a transaction.

Owns the choice for those who write streams themselves, pipelines and measurements; what each way means is in
`writer.py`. Only a transaction needs more than the rows, as one place has to give a partition's records their
sequences:

- On one machine that place is the commit, and what tasks hand over to it goes through memory and files. It takes no
  stage of its own, which costs a small batch more than all the rest.
- On a cluster it is a task for each partition, as the driver alone could not carry what many machines write.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.pipeline.spark.session import is_on_one_machine
from penstock.pipeline.topics.row_encoding import arranged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def ready_to_write(
    rows: DataFrame, options: Mapping[str, str], directory: Path | None
) -> tuple[DataFrame, dict[str, str]]:
    """What to write, and with which options of the sink.

    `directory` is the query's own, on the driver's disk and the same at every start; None if it has no such place.
    """
    if options["guarantee"] != "exactly_once":
        return rows, dict(options)
    if directory is not None and is_on_one_machine(rows.sparkSession):
        return rows, {"handOverDirectory": str(directory), **options}
    return arranged(rows, options), dict(options)
