"""The REST application: all resources, authentication and CORS, over a herder.

The composition root of `connect/rest`. It knows no sockets; `server.py` has those.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from penstock.connect.herder.herder import Herder
from penstock.connect.rest.authentication import AuthenticationMiddleware, authenticator_of
from penstock.connect.rest.connectors import WARNING_HEADER, ConnectorsResource, Warnings
from penstock.connect.rest.extensions import PREFIX, DeadLetters, PenstockResource, Pipelines
from penstock.connect.rest.messages import Result
from penstock.connect.rest.openapi import openapi_document
from penstock.connect.rest.plugins import LoggersResource, PluginsResource
from penstock.connect.rest.routing import Call, Route, Router

_DEFAULT_CORS_METHODS = "GET,POST,HEAD"


def routes_of(
    herder: Herder,
    *,
    advertised_url: Callable[[], str | None] = lambda: None,
    dead_letters: DeadLetters | None = None,
    pipelines: Pipelines | None = None,
    warnings: Warnings = lambda _config: (),
) -> list[Route]:
    routes = [
        *ConnectorsResource(herder, advertised_url, warnings).routes(),
        *PluginsResource(herder).routes(),
        *LoggersResource(herder).routes(),
        *PenstockResource(herder, dead_letters, pipelines).routes(),
    ]

    def openapi(_call: Call) -> Result:
        return Result(openapi_document(routes))

    routes.append(Route("GET", f"{PREFIX}/openapi.json", openapi, "This document"))
    return routes


def build_application(
    herder: Herder,
    config: Mapping[str, str],
    *,
    advertised_url: Callable[[], str | None] = lambda: None,
    dead_letters: DeadLetters | None = None,
    pipelines: Pipelines | None = None,
    warnings: Warnings = lambda _config: (),
) -> ASGIApp:
    """`config` has the worker's properties. Raises ConfigException for those of REST."""
    application: ASGIApp = Router(
        routes_of(
            herder,
            advertised_url=advertised_url,
            dead_letters=dead_letters,
            pipelines=pipelines,
            warnings=warnings,
        )
    )
    authenticator = authenticator_of(config)
    if authenticator is not None:
        application = AuthenticationMiddleware(application, authenticator)
    origins = [each.strip() for each in config.get("access.control.allow.origin", "").split(",") if each.strip()]
    if origins:
        methods = config.get("access.control.allow.methods") or _DEFAULT_CORS_METHODS
        application = CORSMiddleware(
            application,
            allow_origins=origins,
            allow_methods=[each.strip().upper() for each in methods.split(",") if each.strip()],
            allow_headers=["*"],
            expose_headers=["Location", WARNING_HEADER],
        )
    return application
