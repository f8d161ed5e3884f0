"""From a source's bytes to the rows that a sink is given: formats, checks, transforms, and what becomes of bad rows."""
