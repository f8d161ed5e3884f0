"""Whether the broker and the checkpoint agree on which batches of a pipeline are in its topic.

A topic sink recognises a replayed batch by an offset of the group `<pipeline>.batches`. Both sides may have lost
something since the last run:

- Brokers delete the offsets of an inactive group (`offsets.retention.minutes`, seven days by default). That does no
  harm while Spark's own log says that the last batch is complete. A pipeline that was killed between the two commits,
  and is started again after that time, cannot know whether its last batch is in the topic: it stops and asks.
- The checkpoint may be a copy that is older than batches in the topic.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.core.exit_codes import ExitCode
from penstock.core.ids import TopicPartition
from penstock.pipeline.brokers import asking
from penstock.pipeline.checkpoint import Checkpoint
from penstock.pipeline.declaration.spec import PipelineSpec
from penstock.pipeline.failure import PipelineFailed
from penstock.pipeline.topics.batch_ledger import LedgerEntry
from penstock.pipeline.topics.errors import TopicSinkError


def require_known_batches(spec: PipelineSpec, topic: str, kafka: Mapping[str, str], checkpoint: Checkpoint) -> None:
    """Raises PipelineFailed if the broker no longer knows whether the last batch was committed, or if one was committed
    that the checkpoint does not know."""
    if spec.guarantee == "at_least_once":
        return
    if not checkpoint.exists("metadata"):
        return  # nothing was ever begun with it
    group = f"{spec.progress_name}.batches"
    place = TopicPartition(topic, 0)
    with asking("sink.topic", kafka) as client:
        # A driver that was killed leaves a transaction open, which the claim of this run will end; what was committed
        # before it is enough to know that nothing is forgotten.
        committed = client.offset_fetch(group, [place], require_stable=False).get(place)
    if committed is not None:
        try:
            entry = LedgerEntry.from_offset(committed, group)
        except TopicSinkError as mistake:
            raise PipelineFailed(f"sink.topic: {mistake}", ExitCode.SINK_REFUSED) from mistake
        checkpoint.require_planned(entry.batch_id, entry.query_id, f"topic '{topic}'")
        return
    batch_id = checkpoint.unfinished_batch()
    if batch_id is None:
        return
    raise PipelineFailed(
        f"sink.topic: batch {batch_id} was begun before the pipeline was interrupted, and the broker has forgotten"
        f" whether topic '{topic}' holds it: group '{group}' was deleted, or has expired"
        " (offsets.retention.minutes). Look for its rows; run once with guarantee: at_least_once to write them, perhaps"
        " again, or start over with another directory (--checkpoint)",
        ExitCode.SINK_REFUSED,
    )
