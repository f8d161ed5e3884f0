"""The checks of a well-formed pipeline: what it promises and could not keep.

Owns the order in which sink, sources and output mode are asked. What cannot be kept is refused before anything runs.
The answers are the sinks' and the sources' own.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.pipeline.declaration.spec import PipelineSpec
from penstock.pipeline.declaration.verdicts import Refusal, Refused


def refusals(spec: PipelineSpec) -> list[Refusal]:
    """Empty for a pipeline that may run."""
    return [*_of_the_guarantee(spec), *_of_the_sources(spec), *spec.sink.refusals(spec.guarantee), *_of_the_mode(spec)]


def _of_the_guarantee(spec: PipelineSpec) -> Iterator[Refusal]:
    found = spec.sink.verdict(spec.guarantee)
    if isinstance(found, Refused):
        yield Refusal(("guarantee",), f"{spec.guarantee} cannot be kept by this sink: {found.why}")


def _of_the_sources(spec: PipelineSpec) -> Iterator[Refusal]:
    for name, source in spec.all_sources.items():
        for refusal in source.refusals(spec.guarantee):
            yield Refusal((*spec.source_path(name), *refusal.path), refusal.reason)


def _of_the_mode(spec: PipelineSpec) -> Iterator[Refusal]:
    reason = spec.sink.refused_output_mode(spec.output_mode) if spec.output_mode is not None else None
    if reason is not None:
        yield Refusal(("output_mode",), reason)
