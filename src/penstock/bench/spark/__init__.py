"""The Spark measurements: processes that run queries, and the topics and tables that they read and write."""
