"""A Python function as a sink, as its author declares it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Final

from pydantic import Field

from penstock.core.guarantee import Guarantee
from penstock.pipeline.declaration.spec_values import FunctionReference
from penstock.pipeline.declaration.verdicts import BATCH_ID_FIRST, Kept, Refused
from penstock.pipeline.sinks.sink import Sink

if TYPE_CHECKING:
    from penstock.pipeline.sinks.sink_writer import SinkWriter

_NOT_DECLARED_IDEMPOTENT: Final = Refused(
    "a function may be called twice with one batch: let it take the batch id, make the second call harmless, and"
    " declare sink.idempotent: true; or use at_least_once"
)


class FunctionSink(Sink):
    """A Python function that is given every micro-batch as a DataFrame."""

    discriminator: ClassVar[str] = "python"
    spelling: ClassVar[str] = "{python: ...}"
    calls_functions: ClassVar[bool] = True
    guarantees: ClassVar = {
        "at_most_once": BATCH_ID_FIRST,
        "at_least_once": Kept("the function returns before progress is recorded"),
        "exactly_once": Kept("the function is called again with the same batch id, and declares that this is harmless"),
    }

    python: FunctionReference = Field(
        description="The function, called as function(dataframe, batch_id), or function(dataframe) if it takes one"
        " argument. Its module is looked for beside the pipeline's file first.",
        examples=["my_module:store"],
    )
    idempotent: bool = Field(
        default=False,
        description="Declares that calling the function again with the same batch id changes nothing. exactly_once"
        " needs it.",
    )

    def writer(self) -> SinkWriter:
        from penstock.pipeline.sinks.function.writer import FunctionSinkWriter

        return FunctionSinkWriter(self)

    @property
    def identity(self) -> Mapping[str, str]:
        """The name of a function does not say where it writes: another one is the author's decision."""
        return {"python": "a function"}

    def verdict(self, guarantee: Guarantee) -> Kept | Refused:
        if guarantee == "exactly_once" and not self.idempotent:
            return _NOT_DECLARED_IDEMPOTENT
        return super().verdict(guarantee)
