"""Where the rows of a pipeline go, other than topics: one sink per family of files."""
