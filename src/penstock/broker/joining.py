"""How a starting broker comes into its cluster: it waits for the store of the metadata, and registers.

Both end early when the broker is stopped. A broker without a cluster registers in its own journal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

from penstock.broker.node import Node
from penstock.broker.start_error import StartError
from penstock.core.clock import Clock, Entropy
from penstock.core.exit_codes import ExitCode
from penstock.metadata.broker_config import BrokerConfig
from penstock.metadata.changes import Endpoint
from penstock.metadata.config_definition import ConfigError
from penstock.metadata.data_directory import StoreError, StoreInUse
from penstock.metadata.store import MetadataStore
from penstock.protocol.error_codes import BrokerError, ErrorCode

_Value = TypeVar("_Value")


async def join(
    config: BrokerConfig,
    directory: Path,
    stopped: asyncio.Event,
    on_fatal: Callable[[str], None],
    *,
    clock: Clock,
    entropy: Entropy,
) -> MetadataStore | None:
    """Waits for the cluster's store. None if the broker was stopped before it answered."""
    # Imported here: a broker without a cluster does not need it.
    from penstock.broker.etcd.connect import join_cluster
    from penstock.broker.etcd.start import NodeIdInUse

    joining = asyncio.ensure_future(join_cluster(config, directory, clock=clock, entropy=entropy, on_fatal=on_fatal))
    try:
        return await _unless_stopped(joining, stopped)
    except ConfigError as error:
        raise StartError(ExitCode.BAD_CONFIGURATION, str(error)) from None
    except StoreInUse as error:
        raise StartError(ExitCode.DATA_DIR_IN_USE, str(error)) from None
    except NodeIdInUse as error:
        raise StartError(ExitCode.FAILURE, str(error)) from None
    except StoreError as error:
        raise StartError(ExitCode.DATA_DIR_UNUSABLE, str(error)) from None


async def register(node: Node, endpoints: Mapping[str, Endpoint], stopped: asyncio.Event) -> bool:
    """False if the broker was stopped before the store answered."""
    while True:
        registered: asyncio.Future[BrokerError | bool] = node.loop.create_future()
        node.register(endpoints, partial(_decided, registered))
        error = await _unless_stopped(registered, stopped)
        if error is None or isinstance(error, bool):
            return error is not None
        if error.code is not ErrorCode.REQUEST_TIMED_OUT:
            raise StartError(ExitCode.FAILURE, f"the broker cannot register: {error.message}")


async def _unless_stopped(awaited: asyncio.Future[_Value], stopped: asyncio.Event) -> _Value | None:
    """What is awaited; None, without waiting any longer, if the broker is to stop."""
    stopping = asyncio.ensure_future(stopped.wait())
    try:
        await asyncio.wait((awaited, stopping), return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
    if awaited.done():
        return awaited.result()
    awaited.cancel()
    return None


def _decided(registered: asyncio.Future[BrokerError | bool], error: BrokerError | None) -> None:
    if not registered.done():
        registered.set_result(True if error is None else error)
