"""The Spark data source "penstock": topics as DataFrames, with the options and columns of Spark's own Kafka source."""
