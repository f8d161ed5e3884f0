"""The headers of a dead letter: what every record of a dead-letter topic says of itself.

Pipelines and `Consumer.run` both write dead letters, `penstock dead-letters` reads them. A dead letter has the key and
the value of the record that could not be processed, its headers where they are known, and these.

Owns their names and their meaning. It must not know how a letter is written.
"""

from __future__ import annotations

from typing import Final, Literal

Stage = Literal["parse", "expect", "transform", "handle"]
"""What the record did not pass: parsing, an expectation, an expression of the transform, the handler of a consumer."""

PREFIX: Final = "penstock."
REASON: Final = "penstock.reason"
"""Why, as a sentence for a person."""
STAGE: Final = "penstock.stage"
TOPIC: Final = "penstock.topic"
"""Where the record was read: a topic, or the path of a file, which has neither partition nor offset."""
PARTITION: Final = "penstock.partition"
OFFSET: Final = "penstock.offset"
PIPELINE: Final = "penstock.pipeline"
"""The pipeline, or the consumer group, that could not process it."""
REPLAY_ATTEMPT: Final = "penstock.replay.attempt"
"""Of a record that was replayed, not of a letter: 1 after the first replay. If the record becomes a letter again, the
letter has it too, unless it has none of the record's headers."""
REPLAY_ATTEMPTS_MAX: Final = 5
"""A letter whose record was replayed so often waits until someone chooses it: the cause is not fixed."""
HEADERS: Final = (REASON, STAGE, TOPIC, PARTITION, OFFSET, PIPELINE)
