"""The pipelines of `penstock up`, as the REST API of a worker shows and steers them beside its connectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.connect.herder.herder import ConnectRestError
from penstock.pipeline.engine.herder import Herder, Refused, UnknownPipeline


class EnginePipelines:
    """Implements `rest.extensions.Pipelines`."""

    def __init__(self, herder: Herder) -> None:
        self._herder = herder

    def list(self) -> Sequence[Mapping[str, Any]]:
        return self._herder.statuses()

    def stop(self, name: str) -> Mapping[str, Any]:
        return _answer(lambda: self._herder.stop(name), name)

    def restart(self, name: str) -> Mapping[str, Any]:
        return _answer(lambda: self._herder.restart(name), name)


def _answer(act: Callable[[], Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    try:
        return act()
    except UnknownPipeline:
        raise ConnectRestError(404, f"Pipeline {name} not found") from None
    except Refused as refused:
        raise ConnectRestError(409, str(refused)) from None
