"""Pipelines: topic -> source -> transforms -> sink, on Spark.

Everything that knows pyspark, pyarrow or numba lives under this package, and none of it is imported before a pipeline
runs. This file imports nothing, so that `penstock.pipeline.spark.java` is there for those who need only Java.
"""
