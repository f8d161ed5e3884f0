"""How a pipeline travels to the engine: as its declaration, with environment variables already replaced.

One that calls functions of the author's does not run in the engine's Spark: modules of two pipelines would meet under
one name in its process. Imports nothing of Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.pipeline.declaration.spec import PipelineSpec

if TYPE_CHECKING:
    from penstock.pipeline.run_settings import RunSettings


def can_be_hosted(spec: PipelineSpec) -> bool:
    """Whether the engine's Spark can run it."""
    return not spec.calls_functions


def calls_functions(packed_spec: Mapping[str, Any]) -> bool:
    return PipelineSpec.model_validate(packed_spec).calls_functions


def packed(spec: PipelineSpec) -> dict[str, Any]:
    """The declaration as JSON that `PipelineSpec` reads again."""
    return spec.model_dump(mode="json", by_alias=True, exclude_unset=True)


def packed_settings(settings: RunSettings) -> dict[str, Any]:
    return {
        "bootstrap_servers": settings.bootstrap_servers,
        "checkpoint": settings.checkpoint,
        "once": settings.once,
    }
