"""Brokers for tests: `Broker` is Penstock, `Cluster` several of it; `apache_kafka` has Apache Kafka."""

from penstock.testing.broker import Broker
from penstock.testing.cluster import Cluster

__all__ = ["Broker", "Cluster"]
