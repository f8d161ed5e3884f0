"""This broker beside Apache Kafka, on this machine, with the same client: medians, spread and ratios."""
