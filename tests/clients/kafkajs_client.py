"""kafkajs on node, which kafkajs/driver.js drives. Its packages are installed into the cache, never in here."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final

from penstock.testing.java import cache_dir
from tests.clients.group_interface import NO_NEWER_PROTOCOL
from tests.clients.interface import ClientMissingError
from tests.clients.json_lines_client import JsonLinesClient

_DIRECTORY: Final = Path(__file__).parent / "kafkajs"
_INSTALL_TIMEOUT_S: Final = 300


class KafkajsClient(JsonLinesClient):
    name = "kafkajs"
    has_none: ClassVar[Mapping[str, str]] = {
        "produce null headers": "its encoder takes the length of every header's value",
        "incremental alter configs": "its admin client knows AlterConfigs only",
        "describe log dirs": "no call for DescribeLogDirs",
        "list offsets, after the last timestamp": "it answers the log's end instead",
        "list offsets, max timestamp": "no call takes a special timestamp",
        "group, range assignor": "it brings a round robin assignor only",
        "group, cooperative-sticky assignor": "it brings a round robin assignor only",
        "group, static member": "no setting for an instance id",
        **NO_NEWER_PROTOCOL,
        "list transactions": "no call for ListTransactions",
        "describe transaction": "no call for DescribeTransactions",
    }

    def _program(self) -> tuple[list[str], dict[str, str]]:
        return node_command("driver.js")


def node_command(program: str) -> tuple[list[str], dict[str, str]]:
    """The command that runs one of the programs in kafkajs/, and its environment."""
    node = shutil.which("node")
    if node is None:
        raise ClientMissingError("node is not installed: apt-get install nodejs npm")
    environment = {**os.environ, "NODE_PATH": str(_installed_packages()), "KAFKAJS_NO_PARTITIONER_WARNING": "1"}
    return [node, str(_DIRECTORY / program)], environment


def _installed_packages() -> Path:
    lock = (_DIRECTORY / "package-lock.json").read_bytes()
    target = cache_dir() / f"kafkajs-{hashlib.sha256(lock).hexdigest()[:8]}"
    if not target.is_dir():
        npm = shutil.which("npm")
        if npm is None:
            raise ClientMissingError("npm is not installed: apt-get install npm")
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".kafkajs-") as scratch:
            for name in ("package.json", "package-lock.json"):
                shutil.copy(_DIRECTORY / name, scratch)
            command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
            done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, timeout=_INSTALL_TIMEOUT_S)
            if done.returncode != 0:
                raise ClientMissingError(f"npm could not install kafkajs:\n{done.stdout}{done.stderr}")
            # A directory under its final name is complete; whoever comes second leaves the first one's in place.
            try:
                Path(scratch, "node_modules").rename(target)
            except OSError:
                if not target.is_dir():
                    raise
    return target
