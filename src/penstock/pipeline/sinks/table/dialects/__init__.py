"""Databases that tables can be in."""
