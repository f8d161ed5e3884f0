"""What must be there before Spark is measured: Java, the connector's jars, and the class archive of our sessions.

A session of ours that ends leaves a process behind that makes the archive, once for each Java and Spark; later starts
use it. Here it is made before any clock runs, and in the open.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from typing import Final

_ARCHIVE_S_MAX: Final = 900
_EXTRAS: Final = ("pyspark", "pyarrow", "numba", "numpy", "pydantic", "yaml")


class SparkMissing(Exception):
    """Spark cannot be measured here; the message says what to install."""


def prepare() -> str:
    """What the stock side is called in reports."""
    missing = [name for name in _EXTRAS if find_spec(name) is None]
    if missing:
        raise SparkMissing(f"{', '.join(missing)} missing: pip install 'penstock[spark]'")
    import pyspark

    from penstock.pipeline.spark import java_archive, jvm, session
    from penstock.testing.java import JavaMissingError, find_java
    from penstock.testing.spark_connector import CONNECTOR_VERSION, connector_jars

    try:
        java = find_java()
        connector_jars()
    except JavaMissingError as absent:
        raise SparkMissing(str(absent)) from absent
    options = jvm.jvm_options(java, session.default_driver_memory())
    archive = java_archive.archive_path(java, options, jvm.pyspark_home() / "jars")
    # One that comes to nothing is no obstacle: sessions then start without it, and more slowly.
    subprocess.run(
        [sys.executable, "-P", "-m", java_archive.__name__, str(archive)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_ARCHIVE_S_MAX,
        check=False,
    )
    return f"Spark {pyspark.__version__}, connector {CONNECTOR_VERSION}"
