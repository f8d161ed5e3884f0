"""The file sink."""
