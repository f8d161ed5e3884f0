"""Brokers for tests: `Broker` is Penstock; `apache_kafka` has Apache Kafka with the same interface."""

from penstock.testing.broker import Broker

__all__ = ["Broker"]
