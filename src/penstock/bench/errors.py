"""What ends one measurement without ending the benchmark."""

from __future__ import annotations


class MeasurementError(Exception):
    """A measurement could not be taken, or what it counted disagrees with what it sent; the message is for people."""
