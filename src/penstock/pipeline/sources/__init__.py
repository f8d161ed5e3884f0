"""Where the rows of a pipeline come from: a package for each kind, one table (`kinds.py`)."""
