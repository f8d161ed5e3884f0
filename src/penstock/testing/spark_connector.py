"""The jars of Spark's own Kafka connector and of PostgreSQL's JDBC driver, for comparison with our source and sinks.

Owns the releases and their dependencies. It must not know what is compared.

Invariant: the jars contain nothing that PySpark ships, so that no class exists in two versions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from penstock.testing.java import Artifact, fetch_jars

# No connector is published for PySpark 4.3; this one reads and writes, in batches and streams, on 4.3.0.
CONNECTOR_VERSION: Final = "4.2.0"
_SCALA: Final = "2.13"
# The connector requires it, though no delegation token is used. Some mirrors of Maven Central lack later releases.
_TOKENS_VERSION: Final = "4.0.0"
# The versions that the connector was built with.
_KAFKA_CLIENTS_VERSION: Final = "3.9.2"
_COMMONS_POOL_VERSION: Final = "2.13.1"
_DATABASE_DRIVER_VERSION: Final = "42.7.14"


def connector_jars() -> list[Path]:
    """The jars for `format("kafka")`, fetched on first use. Raises JavaMissingError."""
    directory = fetch_jars(
        f"spark-kafka-connector-{CONNECTOR_VERSION}",
        [
            # Without dependencies: the parent of Spark's artifacts names repositories that not every network reaches,
            # and PySpark contains the other dependencies.
            Artifact("org.apache.spark", f"spark-sql-kafka-0-10_{_SCALA}", CONNECTOR_VERSION, alone=True),
            Artifact("org.apache.spark", f"spark-token-provider-kafka-0-10_{_SCALA}", _TOKENS_VERSION, alone=True),
            Artifact("org.apache.kafka", "kafka-clients", _KAFKA_CLIENTS_VERSION, alone=True),
            Artifact("org.apache.commons", "commons-pool2", _COMMONS_POOL_VERSION, alone=True),
        ],
    )
    return sorted(directory.glob("*.jar"))


def database_driver_jars() -> list[Path]:
    """The jars with which `format("jdbc")` writes to PostgreSQL, fetched on first use. Raises JavaMissingError."""
    # Its dependencies are annotations for compilers.
    artifact = Artifact("org.postgresql", "postgresql", _DATABASE_DRIVER_VERSION, alone=True)
    return sorted(fetch_jars(f"postgresql-driver-{_DATABASE_DRIVER_VERSION}", [artifact]).glob("*.jar"))


def connector_conf(*, with_database: bool = False) -> dict[str, str]:
    """Spark settings of a session with the connector."""
    jars = [*connector_jars(), *(database_driver_jars() if with_database else [])]
    return {"spark.jars": ",".join(str(jar) for jar in jars)}
