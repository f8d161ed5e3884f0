"""Spark's own Kafka connector, and the JDBC driver of PostgreSQL for its own table writer, fetched by their Maven
coordinates: what our source and sinks are compared with.

Owns which releases are used, and what they need beside them. It must never know what is compared.

Invariant: nothing that PySpark brings along is among the jars, so that no class exists in two versions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from penstock.testing.java import Artifact, fetch_jars

# None is published for PySpark 4.3 itself; this one was seen to read and write, in batches and in streams, on 4.3.0.
CONNECTOR_VERSION: Final = "4.2.0"
_SCALA: Final = "2.13"
# It is asked for delegation tokens and finds none. Mirrors of Maven Central that lack later ones have this release.
_TOKENS_VERSION: Final = "4.0.0"
# What the connector was built with.
_KAFKA_CLIENTS_VERSION: Final = "3.9.2"
_COMMONS_POOL_VERSION: Final = "2.13.1"
_DATABASE_DRIVER_VERSION: Final = "42.7.14"


def connector_jars() -> list[Path]:
    """The jars that make `format("kafka")` known to a session; fetched on first use. Raises JavaMissingError."""
    directory = fetch_jars(
        f"spark-kafka-connector-{CONNECTOR_VERSION}",
        [
            # Each alone: the parent of Spark's artifacts names repositories that not every network reaches, and what
            # else these depend on, PySpark has.
            Artifact("org.apache.spark", f"spark-sql-kafka-0-10_{_SCALA}", CONNECTOR_VERSION, alone=True),
            Artifact("org.apache.spark", f"spark-token-provider-kafka-0-10_{_SCALA}", _TOKENS_VERSION, alone=True),
            Artifact("org.apache.kafka", "kafka-clients", _KAFKA_CLIENTS_VERSION, alone=True),
            Artifact("org.apache.commons", "commons-pool2", _COMMONS_POOL_VERSION, alone=True),
        ],
    )
    return sorted(directory.glob("*.jar"))


def database_driver_jars() -> list[Path]:
    """The jars that let `format("jdbc")` write to PostgreSQL; fetched on first use. Raises JavaMissingError."""
    # What it depends on are annotations for compilers.
    artifact = Artifact("org.postgresql", "postgresql", _DATABASE_DRIVER_VERSION, alone=True)
    return sorted(fetch_jars(f"postgresql-driver-{_DATABASE_DRIVER_VERSION}", [artifact]).glob("*.jar"))


def connector_conf(*, with_database: bool = False) -> dict[str, str]:
    """Spark settings of a session with the connector."""
    jars = [*connector_jars(), *(database_driver_jars() if with_database else [])]
    return {"spark.jars": ",".join(str(jar) for jar in jars)}
