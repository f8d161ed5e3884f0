"""`penstock quota` against a real broker."""

from __future__ import annotations

import json
from uuid import uuid4

from tests.integration.cli.conftest import Command, only_line


def quotas_of(penstock: Command, user: str) -> dict[str, float]:
    listed = penstock("quota", "list", "--user", user, "--json")
    assert listed.returncode == 0, listed.stderr
    entries = json.loads(listed.stdout)
    return dict(entries[0]["quotas"]) if entries else {}


def test_a_quota_from_its_setting_to_its_removal(penstock: Command) -> None:
    user = f"user-{uuid4().hex}"
    done = penstock("quota", "set", "--user", user, "producer_byte_rate=1048576", "request_percentage=12.5")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert quotas_of(penstock, user) == {"producer_byte_rate": 1048576.0, "request_percentage": 12.5}
    refused = penstock("quota", "set", "--user", user, "consumer_byte_rate=5", "producer_byte_rate=0")
    assert refused.returncode == 1
    assert "greater than 0" in only_line(refused.stderr)
    assert quotas_of(penstock, user) == {"producer_byte_rate": 1048576.0, "request_percentage": 12.5}
    done = penstock("quota", "remove", "--user", user, "producer_byte_rate", "request_percentage")
    assert done.returncode == 0, done.stderr
    assert quotas_of(penstock, user) == {}
