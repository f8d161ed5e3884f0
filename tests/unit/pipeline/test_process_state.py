"""What a process keeps stands in one module, and nothing else connects reading to running."""

from __future__ import annotations

import ast
import subprocess
import sys
import threading
from pathlib import Path

import penstock.pipeline
from penstock.pipeline.process_state import ProgramHost, SharedClients, discard_client, process_wide, shared_client
from penstock.wire.client import WireClient


def test_a_process_has_one_of_each() -> None:
    assert process_wide(ProgramHost) is process_wide(ProgramHost)


def test_no_module_links_reading_to_running_behind_a_run() -> None:
    forbidden = {"WeakKeyDictionary", "WeakValueDictionary", "ContextVar", "local"}
    for file in Path(penstock.pipeline.__file__).parent.rglob("*.py"):
        for node in ast.parse(file.read_text()).body:
            for part in ast.walk(node) if isinstance(node, ast.Assign | ast.AnnAssign) else ():
                if isinstance(part, ast.Call):
                    name = part.func.attr if isinstance(part.func, ast.Attribute) else getattr(part.func, "id", "")
                    assert name not in forbidden, f"{file}:{part.lineno}"


def test_clients_are_shared_by_their_settings_and_few() -> None:
    settings = {"bootstrap.servers": "127.0.0.1:1"}
    first = shared_client(settings)
    assert shared_client(dict(settings)) is first
    discard_client(settings)
    again = shared_client(settings)
    assert again is not first
    for number in range(2, 6):
        shared_client({"bootstrap.servers": f"127.0.0.1:{number}"})
    assert shared_client(settings) is not again
    for number in range(1, 6):
        process_wide(SharedClients).discard({"bootstrap.servers": f"127.0.0.1:{number}"})


def test_shared_clients_are_closed_with_the_process() -> None:
    """A socket that is open when the interpreter ends is a ResourceWarning on stderr."""
    program = """
from penstock.pipeline.process_state import SharedClients, process_wide

class Client:
    def close(self):
        print("closed")

clients = process_wide(SharedClients)._clients
for server in ("a:1", "b:1"):
    clients[1, (("bootstrap.servers", server),)] = Client()
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout.splitlines() == ["closed", "closed"]


def test_pipelines_of_an_engine_share_no_client() -> None:
    """Each has a thread. Two that ask over one connection read each other's answers: one failed with a response that
    was not valid."""
    settings = {"bootstrap.servers": "127.0.0.1:7"}
    found: list[tuple[WireClient, WireClient]] = []
    ready, done = threading.Barrier(3), threading.Event()

    def work() -> None:
        found.append((shared_client(settings), shared_client(settings)))
        ready.wait(30)
        done.wait(30)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    ready.wait(30)
    (first, first_again), (second, second_again) = found
    assert first is first_again
    assert second is second_again
    assert first is not second
    done.set()
    for thread in threads:
        thread.join()
    # The clients of threads that have ended are closed when another one connects.
    shared_client(settings)
    assert len([key for key in process_wide(SharedClients)._clients if dict(key[1]) == settings]) == 1
    discard_client(settings)
