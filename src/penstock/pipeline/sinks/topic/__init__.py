"""The topic sink."""
