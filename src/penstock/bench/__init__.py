"""Benchmarks Penstock beside Apache Kafka and stock Spark on one machine: medians, spread and ratios."""
