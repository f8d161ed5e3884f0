"""The file source."""
