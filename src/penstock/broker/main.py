"""The composition root: builds a broker from its configuration, runs it, and shuts it down.

Everything that can prevent a start (configuration, data directory, address) raises `StartError`: one line for the
operator, and an exit code. A stop by signal is clean: acknowledged records are on disk, indexes are saved, and the next
start needs no recovery.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import resource
import signal
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import uvloop

from penstock.broker.housekeeping import Housekeeping
from penstock.broker.joining import join, register
from penstock.broker.local_metadata_store import LocalMetadataStore
from penstock.broker.log_settings import log_config
from penstock.broker.network.endpoints import (
    BoundListener,
    advertised_endpoints,
    bind_all,
    close_all,
)
from penstock.broker.network.server import Server
from penstock.broker.node import Node
from penstock.broker.presence import loss_of
from penstock.broker.start_error import StartError
from penstock.broker.system import SystemClock, SystemEntropy
from penstock.core.addresses import host_port_text, is_loopback
from penstock.core.clock import Clock, Entropy
from penstock.core.exit_codes import ExitCode
from penstock.core.ids import NO_LEADER_EPOCH, TopicName
from penstock.core.metrics import Metrics
from penstock.log.config import LogConfig
from penstock.log.damage import Damage
from penstock.log.filesystem import FileSystem, RealFileSystem
from penstock.log.log_directory import LogDirectory, LogDirectoryInUse
from penstock.metadata.broker_config import BrokerConfig, is_secret
from penstock.metadata.broker_config_definitions import BROKER_CONFIGS
from penstock.metadata.changes import Endpoint
from penstock.metadata.config_definition import ConfigError, names_without_effect
from penstock.metadata.data_directory import StoreError, StoreInUse
from penstock.metadata.image import ClusterImage
from penstock.metadata.store import MetadataStore
from penstock.metadata.store_local import LocalJournal
from penstock.metadata.topic_config import TopicConfig
from penstock.monitoring.listening import CannotListen, address_of, bind
from penstock.monitoring.logs import print_error

if TYPE_CHECKING:
    import socket

    from penstock.broker.network.tls import ListenerTls
    from penstock.broker.network.token_keys import TokenKeys
    from penstock.monitoring.http_server import MetricsServer

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ready:
    """The first listener of a broker that accepts connections: where it listens, and what it tells clients."""

    listening: str
    host: str
    port: int
    metrics: str | None = None

    def __str__(self) -> str:
        advertised = host_port_text(self.host, self.port)
        text = f"listening on {self.listening}"
        if advertised != self.listening:
            text += f", advertised as {advertised}"
        return text if self.metrics is None else f"{text}, metrics on http://{self.metrics}/metrics"


OnReady = Callable[[Ready], None]

RUNTIME_FILE: Final = "broker.json"
_OPEN_FILES_WANTED: Final = 65_536


def load_config(properties_file: Path | None, overrides: list[str]) -> BrokerConfig:
    """From the properties file, `--set` options and PENSTOCK_* variables; a later one wins."""
    try:
        text = properties_file.read_text(encoding="utf-8") if properties_file is not None else ""
        return BrokerConfig.load(
            properties_text=text,
            properties_name=str(properties_file),
            overrides=overrides,
            environment=os.environ,
        )
    except ConfigError as error:
        raise StartError(ExitCode.BAD_CONFIGURATION, str(error)) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise StartError(ExitCode.BAD_CONFIGURATION, f"{properties_file}: {reason}; check --config") from None


def serve_forever(
    config: BrokerConfig,
    on_ready: OnReady,
    *,
    properties_file: Path | None = None,
    metrics: tuple[str, int] | None = None,
) -> ExitCode:
    """Runs until SIGTERM or SIGINT. Raises StartError if it cannot start.

    `properties_file` is where the settings came from, `metrics` where Prometheus finds them.
    """
    _say_without_effect(config)
    _warn_of_public_secrets(config, properties_file)
    _raise_open_files_limit()
    if len(config.log_dirs) != 1:
        raise StartError(ExitCode.BAD_CONFIGURATION, "log.dirs: this broker keeps its data in one directory; name one")
    directory = Path(config.log_dirs[0])
    if config.metadata_store is not None:
        _check_peer_settings(config)
    tls = _open_certificates(config)
    token_keys = _load_key_sets(config)
    try:
        # Before anything else: a taken port is the most common reason not to start, and must harm nothing.
        bound = [
            replace(each, tls=tls.get(each.name), token_keys=token_keys.get(each.name))
            for each in bind_all(config.listeners)
        ]
        metrics_socket = None if metrics is None else _bind_metrics(*metrics, bound)
    except CannotListen as error:
        raise StartError(ExitCode.CANNOT_LISTEN, str(error)) from None
    _warn_of_open_listeners(config)
    try:
        return uvloop.run(_serve(config, directory, bound, on_ready, metrics_socket))
    finally:
        close_all(bound)
        if metrics_socket is not None:
            metrics_socket.close()


def _bind_metrics(host: str, port: int, bound: Sequence[BoundListener]) -> socket.socket:
    try:
        metrics_socket = bind(host, port, option="--metrics")
    except CannotListen:
        close_all(bound)
        raise
    if not is_loopback(host):
        logger.warning(
            "metrics on %s have no authentication: everyone who can reach it learns the names of topics, groups and "
            "listeners",
            host_port_text(host, port),
        )
    return metrics_socket


def _warn_of_public_secrets(config: BrokerConfig, properties_file: Path | None) -> None:
    secrets = sorted(filter(is_secret, config.layers.static))
    if properties_file is not None and secrets and properties_file.stat().st_mode & stat.S_IROTH:
        logger.warning("%s: every user of this machine can read %s; run chmod 600", properties_file, ", ".join(secrets))


def _check_peer_settings(config: BrokerConfig) -> None:
    """Before the broker joins: a mistake would show when the first partition is replicated."""
    from penstock.broker.peers.credentials import peer_credentials

    try:
        peer_credentials(config)
    except ConfigError as error:
        raise StartError(ExitCode.BAD_CONFIGURATION, str(error)) from None


def _open_certificates(config: BrokerConfig) -> dict[str, ListenerTls]:
    """The certificates of every TLS listener by its name. Before any socket is bound: a mistake must harm nothing."""
    opened: dict[str, ListenerTls] = {}
    for listener in config.advertised_listeners:
        settings = config.listener_security[listener.name].tls
        if settings is None:
            continue
        from penstock.broker.network.tls import ListenerTls, TlsError, readable_by_everyone

        try:
            opened[listener.name] = tls = ListenerTls(settings)
        except TlsError as error:
            raise StartError(ExitCode.BAD_CONFIGURATION, f"listener {listener.name}: {error}") from None
        if readable_by_everyone(settings):
            logger.warning(
                "%s: every user of this machine can read the private key; run chmod 600", settings.keystore_file
            )
        if listener.host and not tls.covers(listener.host):
            logger.warning(
                "listener %s: the certificate is not for %s, which clients are told; they will refuse it unless it "
                "names that host as a subject alternative name",
                listener.name,
                listener.host,
            )
    return opened


def _load_key_sets(config: BrokerConfig) -> dict[str, TokenKeys]:
    """The keys of every listener with OAUTHBEARER by its name."""
    loaded: dict[str, TokenKeys] = {}
    for name, security in config.listener_security.items():
        if security.sasl is None or security.sasl.oauth is None:
            continue
        from penstock.broker.network.token_keys import KeySetError, TokenKeys

        try:
            loaded[name] = TokenKeys(security.sasl.oauth)
        except KeySetError as error:
            raise StartError(ExitCode.BAD_CONFIGURATION, f"listener {name}: {error}") from None
    return loaded


def _warn_of_open_listeners(config: BrokerConfig) -> None:
    for listener in config.listeners:
        if not is_loopback(listener.host) and not config.listener_security[listener.name].authenticates:
            logger.warning(
                "LISTENER WITHOUT AUTHENTICATION: everyone who can reach %s can read and write all that ACLs leave to "
                "User:ANONYMOUS; listen on 127.0.0.1, or use SASL_SSL",
                listener,
            )


async def _serve(
    config: BrokerConfig,
    directory: Path,
    bound: Sequence[BoundListener],
    on_ready: OnReady,
    metrics_socket: socket.socket | None,
) -> ExitCode:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    failure: list[str] = []

    def on_fatal(message: str) -> None:
        failure.append(message)
        stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    entropy = SystemEntropy()
    clock = SystemClock()
    if config.metadata_store is None:
        store: MetadataStore = open_store(config, directory, loop, entropy)
    else:
        joined = await join(config, directory, stopped, on_fatal, clock=clock, entropy=entropy)
        if joined is None:
            return ExitCode.OK
        store = joined
    node = open_node(config, directory, store, loop, on_fatal, clock=clock, entropy=entropy, metrics=Metrics())
    endpoints = advertised_endpoints(config.advertised_listeners, bound)
    # Before the broker registers: what the cluster decides from then on meets open logs.
    node.open_topics()
    if not await register(node, endpoints, stopped):
        node.close(clean=True)
        await store.leave()
        return ExitCode.OK
    # Before the first connection: how it is counted is decided when it is accepted.
    metrics_server = None if metrics_socket is None else await _serve_metrics(node, metrics_socket)
    server = Server(node)
    await server.listen(bound)
    housekeeping = Housekeeping(node)
    housekeeping.start()
    # What exists now stays; walking it again and again would only add pauses.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    try:
        _write_runtime_file(directory, endpoints)
        first = next(iter(endpoints.values()))
        metrics_address = None if metrics_socket is None else address_of(metrics_socket)
        on_ready(Ready(bound[0].address, first.host, first.port, metrics_address))
        # After on_ready, so that a client that waits for the start does not wait for this.
        loop.call_soon(node.resume_transactions)
        await stopped.wait()
        if not failure:
            await node.hand_over()
    finally:
        housekeeping.stop()
        await node.tasks.close()
        if metrics_server is not None:
            metrics_server.close()
        server.close()
        loss = loss_of(node.log_directory)
        if loss is not None:
            # The path may belong to another broker by now: nothing is written to it or removed from it.
            failure.insert(0, loss)
        else:
            (directory / RUNTIME_FILE).unlink(missing_ok=True)
        try:
            node.close(clean=not failure)
        except OSError as error:
            loss = loss_of(node.log_directory)
            failure.append(
                loss or f"{directory}: not closed cleanly: {error.strerror}; the next start recovers the logs"
            )
        await store.leave()
    if failure:
        print_error(failure[0], command="penstock broker")
        return ExitCode.FAILURE if loss is None else ExitCode.DATA_DIR_UNUSABLE
    return ExitCode.OK


async def _serve_metrics(node: Node, metrics_socket: socket.socket) -> MetricsServer:
    # Imported here: a broker that serves no metrics does not need it.
    from penstock.broker.derived_metrics import watch_node
    from penstock.monitoring.http_server import MetricsServer, text_of
    from penstock.monitoring.process_metrics import watch_process

    node.request_metrics.count_sizes()
    watch_node(node, node.metrics)
    watch_process(node.metrics)
    server = MetricsServer(lambda: text_of(node.metrics))
    await server.listen(metrics_socket)
    return server


def open_store(
    config: BrokerConfig, directory: Path, loop: asyncio.AbstractEventLoop, entropy: Entropy
) -> LocalMetadataStore:
    try:
        return LocalMetadataStore(LocalJournal.open(directory, node_id=config.node_id, new_uuid=entropy.uuid), loop)
    except StoreInUse as error:
        raise StartError(ExitCode.DATA_DIR_IN_USE, str(error)) from None
    except StoreError as error:
        raise StartError(ExitCode.DATA_DIR_UNUSABLE, str(error)) from None


def open_node(
    config: BrokerConfig,
    directory: Path,
    store: MetadataStore,
    loop: asyncio.AbstractEventLoop,
    on_fatal: Callable[[str], None],
    *,
    clock: Clock,
    entropy: Entropy,
    metrics: Metrics,
    fs: FileSystem | None = None,
) -> Node:
    """`fs` is the operating system's unless a simulation passes its own."""
    try:
        log_directory = LogDirectory.open(
            str(directory),
            fs or RealFileSystem(),
            config_for=_log_configs(config, store.image),
            leader_epoch_of=_leader_epochs(store.image),
            now_ms=clock.now_ms(),
            report_damage=_report_damage,
        )
        return Node(config, store, log_directory, loop, on_fatal, clock=clock, entropy=entropy, metrics=metrics)
    except LogDirectoryInUse as error:
        raise StartError(ExitCode.DATA_DIR_IN_USE, str(error)) from None
    except OSError as error:
        place = error.filename or directory
        raise StartError(
            ExitCode.DATA_DIR_UNUSABLE, f"{place}: {error.strerror}; check the data directory's permissions and space"
        ) from None


def _log_configs(config: BrokerConfig, image: ClusterImage) -> Callable[[str, int], LogConfig]:
    """The settings of each partition's log, worked out once a topic."""
    inherited = TopicConfig.inherited(config.layers)
    known: dict[str, LogConfig] = {}

    def config_for(topic: str, partition: int) -> LogConfig:
        if topic not in known:
            topic_image = image.topics.get(TopicName(topic))
            overrides = topic_image.configs if topic_image is not None else {}
            known[topic] = log_config(topic, inherited.with_overrides(overrides), config)
        return known[topic]

    return config_for


def _leader_epochs(image: ClusterImage) -> Callable[[str, int], int]:
    def leader_epoch_of(topic: str, partition: int) -> int:
        found = image.topics.get(TopicName(topic))
        if found is None or partition >= len(found.partitions):
            return NO_LEADER_EPOCH
        return found.partitions[partition].leader_epoch

    return leader_epoch_of


def _report_damage(damage: Damage) -> None:
    """Damage is never silent: the operator reads it here, and readers get CORRUPT_MESSAGE."""
    logger.error("%s", damage)


def _say_without_effect(config: BrokerConfig) -> None:
    unused = [*names_without_effect(config.layers.static, BROKER_CONFIGS), *config.without_effect]
    if unused:
        logger.warning("settings without effect in this version: %s", ", ".join(sorted(unused)))


def _raise_open_files_limit() -> None:
    """A log keeps its active segment open; the usual soft limit of 1024 is soon used up."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES_WANTED if hard == resource.RLIM_INFINITY else min(_OPEN_FILES_WANTED, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _write_runtime_file(directory: Path, endpoints: Mapping[str, Endpoint]) -> None:
    """Lets the command line find the broker of a data directory: by its first listener."""
    first = next(iter(endpoints.values()))
    content = {
        "host": first.host,
        "port": first.port,
        "pid": os.getpid(),
        "listeners": {name: host_port_text(endpoint.host, endpoint.port) for name, endpoint in endpoints.items()},
    }
    temporary = directory / (RUNTIME_FILE + ".tmp")
    temporary.write_text(json.dumps(content) + "\n")
    temporary.replace(directory / RUNTIME_FILE)
