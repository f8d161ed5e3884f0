"""What a person is told when a topic cannot be read.

Invariant: `str(error)` is one line that says what is wrong and what to do. It never holds the value of a `kafka.*`
option.
"""

from __future__ import annotations


class TopicSourceError(Exception):
    """A topic cannot be read, or not as asked for."""


class InvalidOption(TopicSourceError):
    """An option is missing, contradicts another one, or has a value that it cannot have."""


class UnknownTopicError(TopicSourceError):
    """What the options name is not on the cluster."""


class DataLossError(TopicSourceError):
    """Records that should have been read are not there any more, and `failOnDataLoss` is true."""
