"""A broker and a real etcd: restarts, members that hang, TLS, passwords, and compacted history."""

from __future__ import annotations

import asyncio
import json
import subprocess
import urllib.request
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest

from penstock.broker.etcd.connect import gateway_of
from penstock.broker.etcd.gateway import EtcdGateway
from penstock.broker.etcd.http_connection import Member
from penstock.client.admin import Admin
from penstock.client.local_broker.process import BrokerProcessError
from penstock.metadata.broker_config import BrokerConfig
from penstock.metadata.config_definition import ConfigError
from penstock.metadata.key_value_store import (
    Compare,
    Delete,
    KeyValue,
    LeaseNotFound,
    Put,
    Revision,
    RevisionCompacted,
    StoreRefused,
    StoreUnavailable,
)
from penstock.metadata.metadata_store_settings import MetadataStoreSettings
from penstock.testing import Broker
from penstock.testing.etcd import Etcd, EtcdMissingError, find_etcd
from penstock.testing.ports import lasting_ports
from tests.certificates import Authority, new_authority
from tests.conftest import optional_part_missing, require_program

T = TypeVar("T")


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(120):
            await scenario()

    asyncio.run(main())


def gateway_to(etcd: Etcd, *, timeout_s: float = 5.0) -> EtcdGateway:
    members = [Member("127.0.0.1", port) for port in etcd.ports]
    return EtcdGateway(members, call_timeout_s=timeout_s, keep_alive_timeout_s=timeout_s)


def settings(address: str, *more: str) -> MetadataStoreSettings:
    found = BrokerConfig.load(overrides=["node.id=1", f"metadata.store={address}", *more]).metadata_store
    assert found is not None
    return found


def call(port: int, path: str, request: Mapping[str, object], token: str = "") -> dict[str, object]:
    headers = {"Authorization": token} if token else {}
    body = json.dumps(request).encode()
    with urllib.request.urlopen(
        urllib.request.Request(f"http://127.0.0.1:{port}/v3/{path}", body, headers), timeout=30
    ) as answer:
        return json.load(answer)  # type: ignore[no-any-return]


@pytest.fixture
def own_etcd() -> Iterator[Etcd]:
    """For a test that stops it."""
    try:
        etcd = Etcd()
    except EtcdMissingError as missing:
        optional_part_missing(str(missing))
    with etcd:
        yield etcd


def test_transactions_ranges_and_leases(etcd: Etcd) -> None:
    async def scenario() -> None:
        gateway = gateway_to(etcd, timeout_s=30)
        lease = await gateway.grant_lease(60_000)
        first = await gateway.commit([], [Put("/gateway/a", b"\x00\xff", lease.lease_id), Put("/gateway/b", b"")])
        assert first.succeeded
        (a, b) = (await gateway.read("/gateway/", "/gateway0")).entries
        assert a == KeyValue("/gateway/a", b"\x00\xff", first.revision, lease.lease_id)
        page = await gateway.read("/gateway/", "/gateway0", limit=1)
        assert page.entries == (a,)
        assert page.has_more
        stale = await gateway.commit([Compare("/gateway/a", Revision(first.revision - 1))], [Delete("/gateway/b")])
        assert not stale.succeeded
        second = await gateway.commit([Compare("/gateway/a", first.revision)], [Delete("/gateway/b")])
        assert second.succeeded
        assert (await gateway.read("/gateway/b")).entries == ()
        assert (await gateway.read("/gateway/b", revision=first.revision)).entries == (b,)
        await gateway.keep_alive(lease.lease_id)
        await gateway.revoke_lease(lease.lease_id)
        await gateway.revoke_lease(lease.lease_id)
        assert (await gateway.read("/gateway/a")).entries == ()
        with pytest.raises(LeaseNotFound):
            await gateway.keep_alive(lease.lease_id)
        with pytest.raises(LeaseNotFound):
            await gateway.commit([], [Put("/gateway/a", b"", lease.lease_id)])
        await gateway.close()

    run(scenario)


def test_a_watch_begins_where_it_is_told_and_says_when_that_is_compacted(etcd: Etcd) -> None:
    async def scenario() -> None:
        gateway = gateway_to(etcd, timeout_s=30)
        first = await gateway.commit([], [Put("/watched/a", b"1"), Put("/watched/b", b"1")])
        second = await gateway.commit([], [Delete("/watched/a"), Put("/watched/b", b"2")])
        watch = gateway.watch("/watched/", after=Revision(first.revision - 1))
        seen = [await anext(watch), await anext(watch)]
        assert [each.revision for each in seen] == [first.revision, second.revision]
        assert sorted((each.key, each.value) for each in seen[1].changes) == [
            ("/watched/a", None),
            ("/watched/b", b"2"),
        ]
        waiting = asyncio.ensure_future(anext(watch))
        third = await gateway.commit([], [Put("/watched/c", b"3")])
        assert (await waiting).revision == third.revision
        await watch.aclose()
        call(etcd.port, "kv/compaction", {"revision": str(third.revision)})
        with pytest.raises(RevisionCompacted):
            await anext(gateway.watch("/watched/", after=first.revision))
        with pytest.raises(RevisionCompacted):
            await gateway.read("/watched/b", revision=first.revision)
        await gateway.close()

    run(scenario)


async def answered(call: Callable[[], Awaitable[T]]) -> T:
    """Repeats the call until etcd answers, as every caller does."""
    while True:
        try:
            return await call()
        except StoreUnavailable:
            await asyncio.sleep(0.05)


@pytest.mark.slow
def test_a_member_that_is_paused_is_left_and_a_restarted_one_serves(own_etcd: Etcd) -> None:
    async def scenario() -> None:
        gateway = gateway_to(own_etcd, timeout_s=2)
        try:
            lease = await answered(lambda: gateway.grant_lease(600_000))
            await answered(lambda: gateway.commit([], [Put("/a", b"1", lease.lease_id)]))
            own_etcd.pause()
            with pytest.raises(StoreUnavailable, match=r"does not (answer|accept connections)"):
                await gateway.keep_alive(lease.lease_id)
            own_etcd.resume()
            own_etcd.kill()
            with pytest.raises(StoreUnavailable):
                await gateway.read("/a")
            await asyncio.to_thread(own_etcd.start)
            await answered(lambda: gateway.keep_alive(lease.lease_id))
            found = await answered(lambda: gateway.read("/a"))
            assert found.entries[0].lease_id == lease.lease_id
        finally:
            await gateway.close()

    run(scenario)


@pytest.mark.slow
def test_a_user_with_a_password(own_etcd: Etcd, tmp_path: Path) -> None:
    port = own_etcd.port
    for path, request in (
        ("auth/user/add", {"name": "root", "password": "r"}),
        ("auth/role/add", {"name": "root"}),
        ("auth/user/grant", {"user": "root", "role": "root"}),
        ("auth/user/add", {"name": "penstock", "password": "secret"}),
        ("auth/role/add", {"name": "penstock"}),
        (
            "auth/role/grant",
            {
                "name": "penstock",
                "perm": {
                    "permType": "READWRITE",
                    "key": b64encode(b"/penstock/").decode(),
                    "range_end": b64encode(b"/penstock0").decode(),
                },
            },
        ),
        ("auth/user/grant", {"user": "penstock", "role": "penstock"}),
        ("auth/enable", {}),
    ):
        call(port, path, request)
    password = tmp_path / "password"

    def configured(text: str) -> EtcdGateway:
        password.write_text(text)
        user = ("metadata.store.user=penstock", f"metadata.store.password.file={password}")
        return gateway_of(settings(own_etcd.url, *user))

    async def scenario() -> None:
        gateway = configured("secret\n")
        written = await gateway.commit([], [Put("/penstock/a", b"1")])
        assert (await anext(gateway.watch("/penstock/", after=Revision(written.revision - 1)))).changes[0].value == b"1"
        await gateway.keep_alive((await gateway.grant_lease(9000)).lease_id)
        with pytest.raises(StoreRefused, match="permission denied"):
            await gateway.read("/other/a")
        own_etcd.kill()  # and with it go the tokens
        await asyncio.to_thread(own_etcd.start)
        assert (await answered(lambda: gateway.read("/penstock/a"))).entries
        await gateway.close()
        wrong, nobody = configured("wrong"), gateway_to(own_etcd)
        with pytest.raises(StoreRefused, match="authentication failed"):
            await wrong.read("/penstock/a")
        with pytest.raises(StoreRefused, match="user name is empty"):
            await nobody.read("/penstock/a")
        await wrong.close()
        await nobody.close()

    try:
        run(scenario)
    finally:
        token = call(port, "auth/authenticate", {"name": "root", "password": "r"})["token"]
        call(port, "auth/disable", {}, str(token))


@pytest.fixture
def tls_etcd(tmp_path: Path) -> Iterator[tuple[str, Authority]]:
    """Its address, and the authority of its certificate. It wants one of its clients too."""
    require_program("openssl", install="apt-get install openssl")
    authority = new_authority(tmp_path / "authority")
    authority.issue("etcd")
    try:
        program = find_etcd().path
    except EtcdMissingError as missing:
        optional_part_missing(str(missing))
    client, peer = lasting_ports(2)
    options = [
        f"--data-dir={tmp_path / 'data'}",
        f"--listen-client-urls=https://127.0.0.1:{client}",
        f"--advertise-client-urls=https://127.0.0.1:{client}",
        f"--listen-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-cluster=default=http://127.0.0.1:{peer}",
        f"--cert-file={authority.directory / 'etcd.crt'}",
        f"--key-file={authority.directory / 'etcd.key'}",
        f"--trusted-ca-file={authority.certificate}",
        "--client-cert-auth",
        "--log-level=error",
    ]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([program, *options], stdout=log, stderr=log)
    try:
        yield f"etcd://127.0.0.1:{client}", authority
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_tls_with_certificates_of_both_sides(tls_etcd: tuple[str, Authority], tmp_path: Path) -> None:
    address, authority = tls_etcd
    stranger = new_authority(tmp_path / "stranger")
    own = [
        "metadata.store.ssl.enable=true",
        f"metadata.store.ssl.truststore.location={authority.certificate}",
        f"metadata.store.ssl.keystore.location={authority.issue('broker')}",
    ]

    async def scenario() -> None:
        gateway = gateway_of(settings(address, *own))
        written = await answered(lambda: gateway.commit([], [Put("/a", b"1")]))
        assert (await anext(gateway.watch("/", after=Revision(written.revision - 1)))).revision == written.revision
        await gateway.close()
        for others, reason in (
            ([own[0], f"metadata.store.ssl.truststore.location={stranger.certificate}"], "certificate is not accepted"),
            (own[:2], "certificate"),
            ([], "closed the connection|does not answer as etcd does"),
        ):
            refused = gateway_of(settings(address, *others))
            with pytest.raises((StoreUnavailable, StoreRefused), match=reason):
                await refused.read("/a")
            await refused.close()

    run(scenario)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["ssl.truststore.location=/nowhere/ca.pem"], "truststore.location: /nowhere/ca.pem: No such file"),
        (["ssl.keystore.location=/nowhere/key.pem"], "keystore.location: /nowhere/key.pem: No such file"),
        (["user=u", "password.file=/nowhere/password"], "password.file: /nowhere/password: No such file"),
        (["user=u", "password.file=/dev/null"], "the first line is empty"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line(more: Sequence[str], message: str) -> None:
    tls = ["metadata.store.ssl.enable=true", *(f"metadata.store.{each}" for each in more)]
    with pytest.raises(ConfigError, match=message) as refused:
        gateway_of(settings("etcd://127.0.0.1:1", *tls))
    assert "\n" not in str(refused.value)


# Broker processes


def config_of(etcd: Etcd, node_id: int, prefix: str) -> dict[str, str]:
    return {
        "node.id": str(node_id),
        "metadata.store": f"{etcd.url}/{prefix}",
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
    }


@pytest.mark.slow
def test_a_broker_outlives_its_etcd_and_its_own_death(own_etcd: Etcd) -> None:
    with Broker(config=config_of(own_etcd, 1, "outlives")) as broker:
        admin = Admin({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topic("before")
        own_etcd.kill()
        own_etcd.start()
        admin.create_topic("after")
        broker.kill()
        broker.start()
        assert {"before", "after"} <= set(admin.list_topics())
        admin.create_topic("last")


@pytest.mark.slow
def test_a_broker_that_starts_before_its_etcd_waits_for_it(own_etcd: Etcd) -> None:
    own_etcd.stop()
    with ThreadPoolExecutor(1) as starting:
        broker = Broker(config=config_of(own_etcd, 1, "waits"), start_timeout_s=60)
        started = starting.submit(broker.__enter__)
        try:
            own_etcd.start()
            started.result(60)
            Admin({"bootstrap.servers": broker.bootstrap_servers}).create_topic("orders")
        finally:
            broker.__exit__(None, None, None)


@pytest.mark.slow
def test_a_second_broker_with_the_same_node_id_ends_with_one_line(etcd: Etcd) -> None:
    config = config_of(etcd, 1, "twice")
    with Broker(config=config) as broker:
        with pytest.raises(
            BrokerProcessError, match=r"node\.id=1 is in use by the live broker at 127\.0\.0\.1:\d+; give"
        ):
            Broker(config=config, start_timeout_s=60).start()
        Admin({"bootstrap.servers": broker.bootstrap_servers}).create_topic("orders")
