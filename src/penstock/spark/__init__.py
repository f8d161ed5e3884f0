"""The public interface for Spark programs that read and write topics themselves, with `format("penstock")`.

- `session(name)`: a SparkSession with settings for one machine, or for a cluster with `master`.
- `repartition_by_target(df, options)`: rows arranged so that one task writes each partition, for exactly_once.
- `lag(query)`: how many offsets a running query is behind, by partition.

Everything under `penstock.pipeline` is private. Names are imported when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from penstock.pipeline.progress import lag_of_query as lag
    from penstock.pipeline.spark.session import start_session as session
    from penstock.pipeline.topics.row_encoding import repartition_by_target

__all__ = ["lag", "repartition_by_target", "session"]

_HOMES: Final = {
    "lag": ("penstock.pipeline.progress", "lag_of_query"),
    "repartition_by_target": ("penstock.pipeline.topics.row_encoding", "repartition_by_target"),
    "session": ("penstock.pipeline.spark.session", "start_session"),
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'penstock.spark' has no attribute '{name}'")
    from importlib import import_module

    try:
        found = getattr(import_module(home[0]), home[1])
    except ModuleNotFoundError as missing:
        raise ImportError(f"penstock.spark needs {missing.name}: pip install 'penstock[spark]'") from missing
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
