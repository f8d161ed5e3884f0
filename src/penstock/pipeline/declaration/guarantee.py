"""The checks of a well-formed pipeline: what it promises and could not keep.

Owns the order in which sink, sources and output mode are asked. What cannot be kept is refused before anything runs.
The answers are the sinks' and the sources' own.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.pipeline.declaration.spec import PipelineSpec
from penstock.pipeline.declaration.verdicts import KeyPath, Refusal, Refused


def refusals(spec: PipelineSpec) -> list[Refusal]:
    """Empty for a pipeline that may run."""
    branches = spec.branches
    return [
        *(refusal for branch in branches for refusal in _of_the_guarantee(branch)),
        *_of_the_sources(spec),
        *(refusal for branch in branches for refusal in _of_the_settings(branch)),
        *(refusal for branch in branches for refusal in _of_the_mode(branch)),
    ]


def _of_the_guarantee(branch: PipelineSpec) -> Iterator[Refusal]:
    found = branch.sink.verdict(branch.guarantee)
    if isinstance(found, Refused):
        # With several sinks, the guarantee is right for some of them.
        at: KeyPath = ("guarantee",) if branch.sink_name is None else branch.sink_path
        yield Refusal(at, f"{branch.guarantee} cannot be kept by this sink: {found.why}")


def _of_the_sources(spec: PipelineSpec) -> Iterator[Refusal]:
    for name, source in spec.all_sources.items():
        for refusal in source.refusals(spec.guarantee):
            yield Refusal((*spec.source_path(name), *refusal.path), refusal.reason)


def _of_the_settings(branch: PipelineSpec) -> Iterator[Refusal]:
    for refusal in branch.sink.refusals(branch.guarantee):
        yield Refusal((*branch.sink_path, *refusal.path[1:]), refusal.reason)


def _of_the_mode(branch: PipelineSpec) -> Iterator[Refusal]:
    reason = branch.sink.refused_output_mode(branch.output_mode) if branch.output_mode is not None else None
    if reason is not None:
        at = branch.output_mode_path
        of_the_pipeline = branch.sink_name is not None and at == ("output_mode",)
        yield Refusal(at, f"does not fit sinks.{branch.sink_name}: {reason}" if of_the_pipeline else reason)
