"""Brokers for tests. `Broker` is ours; Apache Kafka, with the same face, is in `apache_kafka`."""

from penstock.testing.broker import Broker

__all__ = ["Broker"]
