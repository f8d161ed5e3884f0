"""The topic source."""
