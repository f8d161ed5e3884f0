"""The table sink."""
