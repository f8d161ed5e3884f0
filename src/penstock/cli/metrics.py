"""`--metrics` of commands that run pipelines: a server in a thread, and the figures of `penstock up`.

The broker of `penstock up` is a process of its own. Its text and that of the pipelines are served as one, so that
Prometheus has one target.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from penstock.cli.command_error import CommandError
from penstock.cli.listen_address import METRICS_PORT, parse_address
from penstock.core.exit_codes import ExitCode
from penstock.core.metrics import Metrics

if TYPE_CHECKING:
    from penstock.pipeline.pipeline_metrics import PipelineMetrics
    from penstock.pipeline.run_settings import Event


@contextlib.contextmanager
def serving(address: str, write: Callable[[], Awaitable[bytes]]) -> Iterator[str]:
    """Where it serves, as `host:port`."""
    from penstock.monitoring.background import MetricsThread
    from penstock.monitoring.listening import CannotListen, address_of, bind

    try:
        bound = bind(*parse_address(address, "--metrics", METRICS_PORT), option="--metrics")
    except CannotListen as failure:
        raise CommandError(str(failure), ExitCode.CANNOT_LISTEN) from failure
    served = address_of(bound)
    thread = MetricsThread(bound, write)
    try:
        yield served
    finally:
        thread.close()


class Figures:
    """Of `penstock up`. Any thread may call `apply`."""

    def __init__(self) -> None:
        self.broker_address: str | None = None
        self.statuses: Callable[[], Iterable[Mapping[str, Any]]] = list
        self._metrics = Metrics()
        self._pipelines: PipelineMetrics | None = None

    def apply(self, event: Event) -> None:
        if self._pipelines is not None:
            self._pipelines.apply(event)

    @contextlib.contextmanager
    def served(self, address: str | None) -> Iterator[str | None]:
        """Where they are served. Without an address, nothing is counted and nothing is served."""
        if address is None:
            yield None
            return
        from penstock.pipeline.pipeline_metrics import PipelineMetrics

        self._pipelines = PipelineMetrics(self._metrics, self._current_statuses)
        with serving(address, self._text) as served:
            yield served

    def _current_statuses(self) -> Iterable[Mapping[str, Any]]:
        return self.statuses()  # the engine starts after this

    async def _text(self) -> bytes:
        from penstock.monitoring.http_client import fetch
        from penstock.monitoring.http_server import text_of

        broker_text = b""
        if self.broker_address is not None:
            with contextlib.suppress(OSError):  # TimeoutError is one
                broker_text = await fetch(self.broker_address)
        self._metrics.gauge(
            "penstock_broker_scrape_success", "1 if the figures of the broker are here, too."
        ).value = bool(broker_text)
        return broker_text + await text_of(self._metrics)
