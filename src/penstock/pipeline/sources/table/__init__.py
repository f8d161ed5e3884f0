"""The table source."""
