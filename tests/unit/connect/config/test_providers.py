"""References to secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.connect.config.definition import ConfigException
from penstock.connect.config.providers import ConfigProviders

_KAFKA = "org.apache.kafka.common.config.provider."


def providers(**more: str) -> ConfigProviders:
    settings = {
        "config.providers": "env, file,dir",
        "config.providers.env.class": f"{_KAFKA}EnvVarConfigProvider",
        "config.providers.file.class": f"{_KAFKA}FileConfigProvider",
        "config.providers.dir.class": f"{_KAFKA}DirectoryConfigProvider",
    }
    return ConfigProviders(settings | {f"config.providers.{name}": value for name, value in more.items()})


def test_references_are_replaced_where_they_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_HOST", "db.example.com")
    (tmp_path / "secrets.properties").write_text("# of the database\npassword = p${x}\n")
    (tmp_path / "token").write_text("abc\n")
    config = {
        "url": "jdbc:postgresql://${env:DB_HOST}:5432/${env:DB_HOST}",
        "password": f"${{file:{tmp_path}/secrets.properties:password}}",
        "token": f"${{dir:{tmp_path}:token}}",
        "table": "${topic}-$1-{}",
    }
    assert providers().resolve(config) == {
        "url": "jdbc:postgresql://db.example.com:5432/db.example.com",
        "password": "p${x}",
        "token": "abc\n",
        "table": "${topic}-$1-{}",
    }


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("${env:NOT_SET_HERE}", "the environment variable NOT_SET_HERE is not set"),
        ("${env:a:B}", "environment variables have no path"),
        ("${file:/nowhere/at/all:key}", "cannot read /nowhere/at/all: No such file or directory"),
        ("${file:key}", "the reference has no path"),
        ("${dir:/tmp:../etc/passwd}", "is no name of a file in /tmp"),
        ("${vault:a:b}", "config provider 'vault', which the worker does not have; set config.providers"),
    ],
)
def test_what_cannot_be_resolved_names_the_property(reference: str, reason: str) -> None:
    with pytest.raises(ConfigException) as caught:
        providers().resolve({"password": reference})
    assert caught.value.name == "password"
    assert str(caught.value).startswith("password: ")
    assert reason in str(caught.value)


def test_a_missing_key_tells_no_other_key(tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text("hidden=s3cret\n")
    with pytest.raises(ConfigException, match="has no property 'x'") as caught:
        providers().resolve({"a": f"${{file:{tmp_path}/secrets:x}}"})
    assert "s3cret" not in str(caught.value)


def test_what_providers_may_read_can_be_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APP_KEY", "1")
    monkeypatch.setenv("OTHER", "2")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text("k=1")
    (tmp_path / "b").write_text("k=2")
    limits = {"env.param.allowlist.pattern": "APP_.*", "file.param.allowed.paths": str(tmp_path / "in")}
    limited = providers(**limits)
    assert limited.resolve_text(f"${{env:APP_KEY}}${{file:{tmp_path}/in/a:k}}") == "11"
    for reference in ("${env:OTHER}", f"${{file:{tmp_path}/b:k}}", f"${{file:{tmp_path}/in/../b:k}}"):
        with pytest.raises(ConfigException, match="does not allow"):
            limited.resolve_text(reference)


@pytest.mark.parametrize(
    ("worker", "reason"),
    [
        ({"config.providers": "a"}, 'Missing required configuration "config.providers.a.class"'),
        ({"config.providers": "a", "config.providers.a.class": "com.example.Vault"}, "supported are"),
    ],
)
def test_a_provider_that_the_worker_cannot_have(worker: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigException, match=reason):
        ConfigProviders(worker)
