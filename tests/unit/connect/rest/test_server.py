"""The server: listeners, TLS, its start and its stop."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.responses import PlainTextResponse

from penstock.connect.config.definition import ConfigException
from penstock.connect.rest.listeners import Listener, advertised_url, parse_listeners
from penstock.connect.rest.messages import Result
from penstock.connect.rest.routing import Call, Route, Router
from penstock.connect.rest.server import RestServer, serving
from tests.certificates import new_authority

LOOPBACK = {"listeners": "http://127.0.0.1:0"}


async def hello(scope: Any, receive: Any, send: Any) -> None:
    await PlainTextResponse(f"hello {scope['scheme']}")(scope, receive, send)


def test_it_answers_when_start_returns_and_leaves_nothing_when_stop_does() -> None:
    server = RestServer(LOOPBACK)
    before = set(threading.enumerate())
    server.bind()
    server.serve(hello)
    address = server.address
    assert httpx.get(address).text == "hello http"
    assert server.advertised_url == address
    server.stop()
    assert set(threading.enumerate()) <= before
    with pytest.raises(httpx.ConnectError):
        httpx.get(address)
    server.stop()


def test_one_application_serves_several_listeners_at_once() -> None:
    """All requests are under way together before the first one is answered."""
    arrived, release = threading.Semaphore(0), threading.Event()

    def slow(_call: Call) -> Result:
        arrived.release()
        return Result({"released": release.wait(30)})

    application = Router([Route("GET", "/", slow, "Slow")])
    answers: list[Any] = []
    with serving(application, {"listeners": "http://127.0.0.1:0,http://127.0.0.1:0"}) as server:
        asking = [
            threading.Thread(target=lambda url=url: answers.append(httpx.get(url, timeout=30).json()))
            for url in server.addresses
            for _ in range(20)
        ]
        for each in asking:
            each.start()
        for _ in asking:
            assert arrived.acquire(timeout=30)
        release.set()
        for each in asking:
            each.join()
    assert answers == [{"released": True}] * 40


def test_an_address_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = RestServer({"listeners": f"http://127.0.0.1:0,http://127.0.0.1:{port}"})
        with pytest.raises(ConfigException, match=f"cannot listen on http://127.0.0.1:{port}: Address already in use"):
            server.bind()


def test_http_and_https_with_a_certificate_of_the_client(tmp_path: Path) -> None:
    authority = new_authority(tmp_path)
    ours, theirs = authority.issue("server"), authority.issue("client")
    config = {
        "listeners": "http://127.0.0.1:0,https://127.0.0.1:0",
        "rest.advertised.listener": "https",
        "listeners.https.ssl.keystore.type": "PEM",
        **_key(ours),
        "listeners.https.ssl.truststore.certificates": authority.certificate.read_text().replace("\n", " "),
        "listeners.https.ssl.client.auth": "required",
    }
    with serving(hello, config) as server:
        plain, secure = server.addresses
        assert httpx.get(plain).text == "hello http"
        assert server.advertised_url == secure
        context = ssl.create_default_context(cafile=str(authority.certificate))
        context.check_hostname = False
        with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError, httpx.ConnectError)):
            httpx.get(secure, verify=context)
        context.load_cert_chain(theirs)
        assert httpx.get(secure, verify=context).text == "hello https"


def _key(issued: Path) -> Mapping[str, str]:
    # In one line each, as properties files have them.
    end = "-----END PRIVATE KEY-----"
    key, _, chain = issued.read_text().partition(end)
    return {
        "listeners.https.ssl.keystore.key": f"{key}{end}".replace("\n", " "),
        "listeners.https.ssl.keystore.certificate.chain": chain.replace("\n", " "),
    }


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({}, r"needs listeners\.https\.ssl\.keystore\.location"),
        ({"ssl.keystore.type": "JKS"}, "supported is PEM"),
        ({"listeners.https.ssl.keystore.location": "/nowhere.pem"}, r"/nowhere\.pem: .*No such file"),
    ],
)
def test_wrong_properties_of_tls_are_found_at_the_start(config: dict[str, str], reason: str) -> None:
    with (
        pytest.raises(ConfigException, match=reason),
        serving(hello, {"listeners": "https://127.0.0.1:0", **config}),
    ):
        pass


@pytest.mark.parametrize(
    ("text", "listeners"),
    [
        ("http://:8083", [Listener("http", "", 8083)]),
        ("HTTP://0.0.0.0:1, https://host:2", [Listener("http", "", 1), Listener("https", "host", 2)]),
        ("http://[::1]:8083", [Listener("http", "::1", 8083)]),
        ("", [Listener("http", "127.0.0.1", 8083)]),
    ],
)
def test_listeners(text: str, listeners: list[Listener]) -> None:
    assert parse_listeners({"listeners": text}) == listeners


@pytest.mark.parametrize("text", ["8083", "ftp://x:1", "http://host", "http://host:port", "http://host:1/path"])
def test_a_listener_that_cannot_be_meant(text: str) -> None:
    with pytest.raises(ConfigException, match="for configuration listeners: expected http://HOST:PORT"):
        parse_listeners({"listeners": text})


def test_what_is_advertised() -> None:
    listener = Listener("http", "", 8083)
    assert advertised_url({}, listener, 8083) == "http://127.0.0.1:8083"
    config = {"rest.advertised.host.name": "w1.example.com", "rest.advertised.port": "80"}
    assert advertised_url(config, listener, 8083) == "http://w1.example.com:80"
    with pytest.raises(ConfigException, match="Not a number"):
        advertised_url({"rest.advertised.port": "x"}, listener, 8083)
