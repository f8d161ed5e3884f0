"""Pipelines: topic -> source -> transforms -> sink, on Spark.

Private: programs import `penstock` and `penstock.spark`, and no name of this package.

declaration/ says what a pipeline is, run.py puts one together and runs it, supervisor.py keeps it running.

Everything that knows pyspark, pyarrow or numba lives under this package, and none of it is imported before a pipeline
runs. This file imports nothing, so that `penstock.pipeline.spark.java` is there for those who need only Java.
"""
