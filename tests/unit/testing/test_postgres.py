"""A PostgreSQL server for the length of a test."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from penstock.testing import postgres
from penstock.testing.database_server import DatabaseMissingError
from penstock.testing.postgres import PostgresServer, find_postgres
from tests.postgres_server import running_postgres


def test_it_keeps_what_it_had_after_a_kill_and_is_gone_when_stopped(tmp_path: Path) -> None:
    import psycopg

    with running_postgres(tmp_path) as server:
        with psycopg.connect(server.address) as connection:
            connection.execute("CREATE TABLE kept (n int)")
        server.kill()
        server.start()
        with psycopg.connect(server.url) as connection:
            assert connection.execute("SELECT count(*) FROM kept").fetchall() == [(0,)]
        port = server.port
    with pytest.raises(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        pass


def test_a_port_that_another_server_has_taken_is_not_used(tmp_path: Path) -> None:
    import psycopg

    with running_postgres(_directory(tmp_path, "first")) as first:
        second = PostgresServer(_directory(tmp_path, "second"))
        second.port = first.port
        second.start()
        try:
            assert second.port != first.port
            with psycopg.connect(second.url) as connection:
                assert connection.execute("SHOW data_directory").fetchall() == [(str(tmp_path / "second" / "data"),)]
        finally:
            second.stop()


def _directory(parent: Path, name: str) -> Path:
    directory = parent / name
    directory.mkdir()
    return directory


def test_a_machine_without_it_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(postgres, "_INSTALLED", tmp_path / "none")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DatabaseMissingError, match="apt install postgresql"):
        find_postgres()
    with pytest.raises(DatabaseMissingError):
        PostgresServer(tmp_path)
