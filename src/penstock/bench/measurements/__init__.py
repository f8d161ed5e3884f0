"""One file per measurement."""
