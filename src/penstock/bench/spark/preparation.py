"""Prepares the Spark measurements: Java, the connector's jars, and the class archive of our sessions.

Usually a background process creates the archive after the first session, once per Java and Spark. Here it is created
in the foreground, before any measurement.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from typing import Final

_ARCHIVE_S_MAX: Final = 900
_EXTRAS: Final = ("pyspark", "pyarrow", "numba", "numpy", "pydantic", "yaml")


class SparkMissing(Exception):
    """Spark cannot be measured; the message says what to install."""


def prepare() -> str:
    """Returns the name of stock Spark in reports."""
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
    # A failure is harmless: sessions start without the archive, only more slowly.
    subprocess.run(
        [sys.executable, "-P", "-m", java_archive.__name__, str(archive)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_ARCHIVE_S_MAX,
        check=False,
    )
    return f"Spark {pyspark.__version__}, connector {CONNECTOR_VERSION}"
