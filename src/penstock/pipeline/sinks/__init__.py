"""Where the rows of a pipeline go: a package for each kind, one table (`kinds.py`)."""
