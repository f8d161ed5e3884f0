"""The sink that calls a Python function."""
