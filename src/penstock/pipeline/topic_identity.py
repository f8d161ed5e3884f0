"""Whether the topics of a pipeline are still those that it has read.

A topic that was deleted and created again has its old name and other records under the old offsets: to go on at the
checkpoint's positions would skip records without a word. Positions cannot show that once the new topic is as long as
the old one was; ids can. A running query compares them itself; this is for what happens between two runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.core.exit_codes import ExitCode
from penstock.pipeline.checkpoint import Checkpoint
from penstock.pipeline.failure import PipelineFailed

_FILE: Final = "topics.json"

TopicIds = Mapping[str, str]
"""By topic. One whose broker gives no ids is not among them."""


def check_topics(checkpoint: Checkpoint, key: str, found: TopicIds) -> None:
    """Raises PipelineFailed if one of these is another topic than the one that the checkpoint's positions are of."""
    known = checkpoint.read(_FILE) or {}
    for topic, topic_id in found.items():
        if known.get(topic, topic_id) != topic_id:
            raise PipelineFailed(
                f"{key}.topic: topic '{topic}' was deleted and created again since this pipeline has read it, and what"
                " it had not read of the old one is gone; to read the new one from its beginning, name another"
                " directory with --checkpoint",
                ExitCode.SOURCE_LOST,
            )


def keep_topics(checkpoint: Checkpoint, found: TopicIds) -> None:
    known = checkpoint.read(_FILE) or {}
    if any(topic not in known for topic in found):
        checkpoint.write(_FILE, {**found, **known})
